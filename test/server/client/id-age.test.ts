import { expect, test } from 'vitest';
import { openStore } from '../../support/store.js';

test('a file in a trunk that is not full has its id once it is as old as idMaxAge', async () => {
  const options = { mergeMaxAge: '50ms', idMaxAge: '2s' } as const;
  const store = await openStore(options);
  const { key, stagedAt } = await store.put('a file', { name: 'a.txt' });
  const id = await store.settled(key, { signal: AbortSignal.timeout(30_000) });
  expect(Date.now()).toBeGreaterThanOrEqual(stagedAt.getTime() + 2_000);
  expect((await (await store.get(id)).bytes()).toString()).toBe('a file');
});

import { randomBytes } from 'node:crypto';
import { expect, test } from 'vitest';
import { makeLog } from '../../../gateway/dist/observe/log.js';
import { until } from '../../support/staging.js';
import { plainGateway, SMALL } from '../../support/store.js';
import { ofTest } from '../../support/temporary.js';

/** A large file that is deleted, also in FastDFS, while a client reads it. */

test('a download ends, and nothing is said to be lost', async () => {
  const lines: string[] = [];
  const log = makeLog('warn', 'json', { write: (line) => void lines.push(line) });
  const options = { ...SMALL, maxFileSize: '64MiB', retain: 0, scrubRate: 0 } as const;
  const { store, url } = await plainGateway(options, ofTest, { log });
  const { key } = await store.put(randomBytes(48 * 2 ** 20));
  await store.flush();
  await until(async () => (await store.locate(key)).disk === undefined);
  const reader = (await fetch(`${url}/files/${key}`)).body!.getReader();
  await reader.read();
  expect((await fetch(`${url}/files/${key}`, { method: 'DELETE' })).status).toBe(204);
  await until(() => store.stats().trunks === 0);
  const rest = async () => {
    while (!(await reader.read()).done);
  };
  await expect(rest()).rejects.toThrow();
  expect((await fetch(`${url}/files/${key}`)).status).toBe(404);
  expect([lines, store.stats().missingInFastdfs]).toEqual([[], 0]);
});

import { randomBytes } from 'node:crypto';
import { expect, onTestFinished, test } from 'vitest';
import { adapters } from '../../support/middleware/adapters.js';
import { stores } from '../../support/store.js';

/** An app in front of a gateway: its store is that of `connect()`. */

test('an app stores at a gateway what it takes, once, and serves it', async () => {
  const { store, behind } = await stores[1]!.opened();
  const app = await adapters[0]!.start(store, {});
  onTestFinished(() => app.close());
  const body = randomBytes(3_000_000);
  const headers = { 'idempotency-key': 'same', 'content-type': 'application/x-photo' };
  const keys: string[] = [];
  for (let turn = 0; turn < 2; turn += 1) {
    const answer = await fetch(app.url, { method: 'POST', headers, body });
    expect(answer.status).toBe(201);
    keys.push(...app.keysOf(await answer.json()));
  }
  expect([new Set(keys).size, behind.stats().acknowledgedFiles]).toEqual([1, 1]);
  const url = `${app.url}/${keys[0]}`;
  const whole = await fetch(url);
  expect(whole.headers.get('content-type')).toBe('application/x-photo');
  expect(Buffer.from(await whole.arrayBuffer()).equals(body)).toBe(true);
  const part = await fetch(url, { headers: { range: 'bytes=1000000-2500000' } });
  expect(part.status).toBe(206);
  const range = Buffer.from(await part.arrayBuffer());
  expect(range.equals(body.subarray(1_000_000, 2_500_001))).toBe(true);
  const known = { 'if-none-match': whole.headers.get('etag')! };
  expect((await fetch(url, { headers: known })).status).toBe(304);
  expect((await fetch(url.replace(/\/.([^/]*)$/, '/B$1'))).status).toBe(404);
});

import { expect, test } from 'vitest';
import { run } from '../../support/cli/run.js';
import { keyFile, newKey } from '../../support/gateway/guarded.js';
import { openGateway } from '../../support/store.js';

async function gateway(options: object = {}) {
  const admin = newKey({ scopes: ['admin'] });
  const writes = newKey({ scopes: ['read', 'write'] });
  const apiKeys = await keyFile(admin, writes);
  const slow = { mergeMaxAge: '1h', idMaxAge: '1h' };
  const started = await openGateway({ ...slow, apiKeys, ...options });
  const env = (key: string) => ({ STEVEDORE_URL: started.url, STEVEDORE_API_KEY: key });
  return { store: started.store, admin: env(admin.text), writes: env(writes.text) };
}

test('flush has what is staged stored, and stat says what a file waits for until then', async () => {
  const { store, admin, writes } = await gateway();
  const { key } = await store.put('staged');
  const before = await run(['stat', key], { env: writes });
  expect(before.stdout).toMatch(/^idPending {6}waiting, by 20\d\d-\S+$/m);
  expect(await run(['flush'], { env: admin })).toEqual({ code: 0, stdout: '', stderr: '' });
  const after = await run(['stat', key], { env: writes });
  expect(after.stdout).toMatch(/^fileId {9}group1\/M00\//m);
  expect(after.stdout).not.toContain('idPending');
});

test('flush says why it fails: FastDFS, the key, the time', async () => {
  const { store, admin, writes } = await gateway({ trackers: ['127.0.0.1:1'] });
  await store.put('staged');
  const failed = await run(['flush', '--timeout', '500ms'], { env: admin });
  expect(failed.code).toBe(1);
  expect(failed.stderr).toMatch(/^stevedore: 1 files still wait after 500 ms .*127\.0\.0\.1:1/);
  const refused = await run(['flush'], { env: writes });
  expect([refused.code, refused.stderr]).toEqual([1, expect.stringContaining('scope "admin"')]);
  const wrong = await run(['flush', '--timeout', 'soon'], { env: admin });
  expect(wrong.code).toBe(2);
});

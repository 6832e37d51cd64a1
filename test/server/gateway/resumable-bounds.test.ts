import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Gateway } from '@stevedore/gateway';
import { expect, test } from 'vitest';
import { keyFile, newKey } from '../../support/gateway/guarded.js';
import { started, tus } from '../../support/gateway/tus.js';
import { temporaryFolder } from '../../support/temporary.js';

/** Who may begin and continue resumable uploads, how many, and what they may become. */

test('each client has a share of the unfinished uploads, also after a restart', async () => {
  const directory = temporaryFolder();
  const keys = [newKey(), newKey()];
  const apiKeys = await keyFile(...keys);
  const start = () => started({ directory, apiKeys }, { limits: { maxClientUploads: 2 } });
  const first = await start();
  const [one, other] = keys.map(({ text }) => ({ authorization: `Bearer ${text}` }));
  const post = ({ url }: Gateway, headers: Record<string, string>) =>
    tus(`${url}/uploads`, 'POST', { 'upload-length': '5', ...headers });
  const answers = await Promise.all(Array.from({ length: 5 }, () => post(first, one!)));
  expect(answers.map(({ status }) => status).sort()).toEqual([201, 201, 429, 429, 429]);
  expect((await post(first, other!)).status).toBe(201);
  await first.close();
  const second = await start();
  const refused = await post(second, one!);
  expect([refused.status, refused.code]).toEqual([429, 'too_many_unfinished']);
  expect(refused.headers.get('retry-after')).toMatch(/^\d+$/);
  const [begun] = answers.filter(({ status }) => status === 201);
  const upload = second.url + begun!.headers.get('location');
  const patch = { 'upload-offset': '0', ...one };
  expect((await tus(upload, 'PATCH', patch, 'whole')).status).toBe(204);
  expect((await post(second, one!)).status).toBe(201);
});

test('without keys the share is that of an address', async () => {
  const gateway = await started({ trustProxy: ['127.0.0.1'] }, { limits: { maxClientUploads: 1 } });
  const post = (address: string) =>
    tus(`${gateway.url}/uploads`, 'POST', { 'upload-length': '5', 'x-forwarded-for': address });
  expect((await post('192.0.2.1')).status).toBe(201);
  for (const written of ['192.0.2.1', '192.0.2.1:4711', '[::ffff:192.0.2.1]:5']) {
    expect((await post(written)).code).toBe('too_many_unfinished');
  }
  expect((await post('192.0.2.2:4711')).status).toBe(201);
  const folder = join(gateway.directory, 'unfinished');
  const infos = readdirSync(folder).filter((name) => name.endsWith('.info'));
  expect(infos).toHaveLength(2);
  for (const name of infos)
    expect(readFileSync(join(folder, name), 'latin1')).not.toContain('192.0.2.');
});

test('a policy holds for an upload in several requests', async () => {
  const policies = join(temporaryFolder(), 'policies.json');
  const photos = { types: ['image/png'], checkContent: true, maxFileSize: '5000B', group: 'album' };
  writeFileSync(policies, JSON.stringify({ photos: { ...photos, ttl: '60s' } }));
  const gateway = await started({ policies });
  const at = `${gateway.url}/uploads/photos`;
  const png = (type: string) => `filetype ${Buffer.from(type).toString('base64')}`;
  const begin = (size: number, type: string) =>
    tus(at, 'POST', { 'upload-length': `${size}`, 'upload-metadata': png(type) });
  expect((await begin(10, 'text/html')).code).toBe('type_not_allowed');
  expect((await begin(5001, 'image/png')).code).toBe('too_large');
  const upload = gateway.url + (await begin(10, 'image/png')).headers.get('location');
  const refused = await tus(upload, 'PATCH', { 'upload-offset': '0' }, '<html></ht');
  expect([refused.status, refused.code]).toEqual([415, 'type_mismatch']);
  expect((await tus(upload, 'HEAD')).status).toBe(404);
  const head = Buffer.from('89504e470d0a1a0a0000000d49484452', 'hex');
  const image = Buffer.concat([head, Buffer.alloc(100)]);
  const good = gateway.url + (await begin(image.length, 'image/png')).headers.get('location');
  // Its first bytes come one by one.
  await tus(good, 'PATCH', { 'upload-offset': '0' }, image.subarray(0, 1));
  const { headers } = await tus(good, 'PATCH', { 'upload-offset': '1' }, image.subarray(1));
  const { group, expiresAt } = await gateway.store.stat(headers.get('x-file-key')!);
  expect(group).toBe('album');
  expect(expiresAt!.getTime()).toBeLessThanOrEqual(Date.now() + 60_000);
});

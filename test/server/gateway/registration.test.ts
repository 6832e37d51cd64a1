import { randomBytes } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { connect } from '@stevedore/client/connect';
import { FastdfsClient } from '@stevedore/fastdfs';
import { expect, onTestFinished, test } from 'vitest';
import type { Scope } from '../../../gateway/dist/access/api-keys.js';
import { keyFile, newKey } from '../../support/gateway/guarded.js';
import { soon } from '../../support/soon.js';
import { openGateway } from '../../support/store.js';
import { temporaryFolder } from '../../support/temporary.js';

/** `POST /files?id=ID`: a file of FastDFS gets a key. */

async function setUp(policy: object = {}) {
  const directory = temporaryFolder();
  const scopes = (...list: Scope[]) => newKey({ scopes: list });
  const keys = {
    ...{ both: scopes('read', 'write'), reads: scopes('read'), writes: scopes('write') },
    all: scopes('read', 'write', 'delete'),
  };
  const apiKeys = await keyFile(...Object.values(keys));
  const policies = `${directory}/policies.json`;
  writeFileSync(policies, JSON.stringify({ default: policy }));
  const started = await openGateway({ apiKeys, policies });
  const client = new FastdfsClient({ trackers: started.store.trackers });
  onTestFinished(() => client.close());
  const bytes = randomBytes(20_000);
  const fileId = await client.upload(bytes, { extension: 'jpg' });
  const post = (key: string, options: RequestInit = {}, id = fileId) =>
    fetch(`${started.url}/files?id=${encodeURIComponent(id)}`, {
      method: 'POST',
      ...options,
      headers: { 'x-api-key': key, ...options.headers },
    });
  return { ...started, fileId, bytes, keys, post };
}

test('needs the scopes read and write, and no body', async () => {
  const { keys, post, url, fileId, bytes } = await setUp();
  for (const { text } of [keys.reads, keys.writes]) expect((await post(text)).status).toBe(403);
  expect((await post('wrong')).status).toBe(401);
  const { text } = keys.both;
  expect((await post(text, { body: 'bytes' })).status).toBe(400);
  expect((await post(text, { headers: { 'content-type': 'junk' } })).status).toBe(415);
  expect((await post(text, { headers: { 'x-filename': '%' } })).status).toBe(400);
  expect((await post(text, {}, 'group1/M00/00/00/nothing.jpg')).status).toBe(404);
  const headers = { 'x-filename': 'a%20photo.jpg', 'content-type': 'image/jpeg' };
  const answer = await post(text, { headers });
  expect(answer.status).toBe(201);
  const receipt = (await answer.json()) as { readonly key: string };
  expect(receipt).toMatchObject({ fileId, name: 'a photo.jpg', size: bytes.length });
  expect(answer.headers.get('location')).toBe(`/files/${receipt.key}`);
  expect(await (await post(text)).json()).toEqual(receipt);
  const read = await fetch(`${url}/files/${receipt.key}`, { headers: { 'x-api-key': text } });
  expect(Buffer.from(await read.arrayBuffer()).equals(bytes)).toBe(true);
});

test('a store over HTTP registers as open() does', async () => {
  const { keys, url, fileId } = await setUp();
  await using store = connect({ url, apiKey: keys.both.text });
  const about = { name: 'ein Bild ü.jpg', type: 'image/jpeg', group: 'älbum' };
  const receipt = await store.register!(fileId, about);
  expect(receipt).toMatchObject({ ...about, fileId, state: 'merged' });
  expect((await store.register!(fileId)).key).toBe(receipt.key);
  await expect(store.register!('nonsense')).rejects.toMatchObject({ code: 'invalid_id' });
  await expect(store.register!(fileId, { group: ' x' })).rejects.toMatchObject({
    code: 'invalid_option',
  });
});

test('the default policy holds as for an upload', async () => {
  const headers = { 'content-type': 'image/jpeg' };
  const small = await setUp({ types: ['image/*'], maxFileSize: '19KiB' });
  const { text } = small.keys.both;
  const code = async (answer: Response) => ((await answer.json()) as { code: string }).code;
  expect(await code(await small.post(text))).toBe('type_not_allowed');
  expect(await code(await small.post(text, { headers }))).toBe('too_large');
  const large = await setUp({ types: ['image/*'], maxFileSize: '20KiB' });
  expect((await large.post(large.keys.both.text, { headers })).status).toBe(201);
});

test('X-Mode: direct stores a raw body as a file of FastDFS before it is acknowledged', async () => {
  const { url, store, keys, bytes } = await setUp();
  const own = { 'x-api-key': keys.all.text };
  const post = (headers: Record<string, string>, body: Buffer | FormData = bytes) =>
    fetch(`${url}/files`, { method: 'POST', headers: { ...own, ...headers }, body });
  const about = { 'x-filename': 'a.jpg', 'content-type': 'image/jpeg', 'x-affinity-group': 'g' };
  const answer = await post({ ...about, 'x-mode': 'direct', 'x-expires-in': '60' });
  expect(answer.status).toBe(201);
  const receipt = (await answer.json()) as { readonly key: string; readonly fileId: string };
  expect(receipt).toMatchObject({ name: 'a.jpg', state: 'merged', affinityGroup: 'g' });
  expect(receipt).toHaveProperty('expiresAt');
  expect(store.stats()).toMatchObject({ stagedFiles: 0, stagedBytes: 0 });
  await using client = new FastdfsClient({ trackers: store.trackers });
  expect((await client.downloadBytes(receipt.fileId)).equals(bytes)).toBe(true);
  const read = await fetch(`${url}/files/${receipt.key}`, { headers: own });
  expect(Buffer.from(await read.arrayBuffer()).equals(bytes)).toBe(true);
  // Each upload is a file, also with the same bytes; the default is staged.
  const again = (await (await post({ 'x-mode': 'direct' })).json()) as typeof receipt;
  expect(again.fileId).not.toBe(receipt.fileId);
  const staged = (await (await post({ 'x-mode': 'staged' })).json()) as { readonly state: string };
  expect(staged.state).toBe('staged');
  const deleted = await fetch(read.url, { method: 'DELETE', headers: own });
  expect(deleted.status).toBe(204);
  // Its bytes go after the acknowledgement, as a trunk's do once none of its files is alive.
  const gone = { code: 'not_found' };
  await soon(() => expect(client.downloadBytes(receipt.fileId)).rejects.toMatchObject(gone));
  const form = new FormData();
  form.append('file', new Blob(['bytes']));
  const refused = [
    await post({ 'x-mode': 'direct' }, form),
    await post({ 'x-mode': 'fast' }),
    await post({ 'x-mode': 'direct', 'idempotency-key': 'a' }),
  ];
  expect(refused.map(({ status }) => status)).toEqual([400, 400, 400]);
});

test('a header for raw bodies alone is refused by every other way in', async () => {
  const { url, keys, post } = await setUp();
  const own = { 'x-api-key': keys.both.text };
  const raw = await fetch(`${url}/files`, { method: 'POST', headers: own, body: 'x' });
  const { key } = (await raw.json()) as { readonly key: string };
  const tus = { 'tus-resumable': '1.0.0', 'upload-length': '1' };
  for (const header of [{ 'x-mode': 'direct' }, { 'x-picture-of': key }]) {
    const headers = { ...own, ...header };
    const form = new FormData();
    form.append('file', new Blob(['bytes']));
    const answers = [
      await post(keys.both.text, { headers }),
      await fetch(`${url}/files`, { method: 'POST', headers, body: form }),
      await fetch(`${url}/uploads`, { method: 'POST', headers: { ...headers, ...tus } }),
    ];
    expect(answers.map(({ status }) => status)).toEqual([400, 400, 400]);
  }
});

import { randomBytes } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { connect } from '@stevedore/client/connect';
import { FastdfsClient } from '@stevedore/fastdfs';
import type { GatewayInput } from '@stevedore/gateway';
import { presignedUpload, signedDownload } from '@stevedore/middleware/core';
import { expect, onTestFinished, test } from 'vitest';
import { SCOPES } from '../../../gateway/dist/access/api-keys.js';
import { trustedProxies } from '../../../gateway/dist/http/addresses.js';
import { parseGatewayOptions } from '../../../gateway/dist/options.js';
import { keyFile, newKey, SECRET } from '../../support/gateway/guarded.js';
import { bytesOf, send, started } from '../../support/gateway/tus.js';
import { plainGateway } from '../../support/store.js';
import { strippingProxy } from '../../support/stripping-proxy.js';
import { temporaryFolder } from '../../support/temporary.js';

/** URLs in answers of a gateway that clients reach below a path. */

type Headers = Readonly<Record<string, string>>;

async function guardedGateway(input: GatewayInput) {
  const directory = temporaryFolder();
  const made = newKey({ scopes: SCOPES });
  const apiKeys = await keyFile(made);
  const policies = join(directory, 'policies.json');
  writeFileSync(policies, JSON.stringify({ avatars: { maxFiles: 1 } }));
  const options = { apiKeys, policies, urlSecret: [SECRET], idMaxAge: 0, ...input };
  const gateway = await plainGateway(options);
  return { ...gateway, apiKey: made.text };
}

const MARK = randomBytes(16).toString('base64url');
const TUS = { 'tus-resumable': '1.0.0' };
const BYTES = { 'content-type': 'application/offset+octet-stream', 'upload-offset': '0' };
const metadata = (name: string) => ({ 'upload-metadata': `filename ${btoa(name)}` });

/** Answers by the names of their operations, and all text of them in which a URL may be. */
async function walk(input: GatewayInput, asked: Headers): Promise<Map<string, string>> {
  const gateway = await guardedGateway(input);
  const answers = new Map<string, string>();
  const call = async (name: string, path: string, headers: Headers = {}, body?: string) => {
    const method = name.split(' ', 1)[0]!;
    const response = await fetch(gateway.url + path, {
      method,
      headers: { 'x-api-key': gateway.apiKey, ...asked, ...headers },
      ...(body === undefined ? {} : { body }),
    });
    const text = await response.text();
    expect(response.status, `${name}: ${text}`).toBeLessThan(400);
    const at = ['location', 'content-location'].map((each) => response.headers.get(each) ?? '');
    answers.set(name, [...at, text].join('\n'));
    return { text, location: at[0]! };
  };
  const once = { 'idempotency-key': `once-${MARK}`, 'x-affinity-group': 'g' };
  const { text } = await call('POST /files', '/files', once, 'hello');
  const { key } = JSON.parse(text) as { key: string };
  await call('POST /files again', '/files', once, 'hello');
  const form = { 'content-type': 'multipart/form-data; boundary=b' };
  const part = (name: string) =>
    `--b\r\nContent-Disposition: form-data; name="f"; filename="${name}"\r\n\r\nx\r\n`;
  await call('POST /files form', '/files', form, `${part('a')}${part('b')}--b--\r\n`);
  await call('POST /uploads/{id}', '/uploads/avatars', {}, 'x');
  await call('GET /files', '/files?group=g');
  await call('GET /groups', '/groups');
  await call('GET /files once', `/files?once=${MARK}`);
  await call('GET /files id', `/files?id=${key}`);
  await call('GET /files/{key}', `/files/${key}`);
  await call('GET /files/{key}/{filename}', `/files/${key}/a.txt`);
  await call('GET /files/{key}/info', `/files/${key}/info`);
  await call('GET /console/file', `/console/file?id=${key}`);
  for (const path of ['/console/state', '/console/history', '/console/access']) {
    await call(`GET ${path}`, path);
  }
  const made = JSON.parse((await call('POST /keys', '/keys?name=x')).text) as { id: string };
  await call('PATCH /keys/{id}', `/keys/${made.id}`);
  await call('DELETE /keys/{id}', `/keys/${made.id}`);
  await call('PUT /policies/{name}', '/policies/other?max-files=1');
  await call('GET /policies', '/policies');
  await call('DELETE /policies/{name}', '/policies/other');
  await call('POST /flush', '/flush');
  for (const path of ['/health/live', '/health/ready', '/metrics']) await call(`GET ${path}`, path);
  const client = new FastdfsClient({ trackers: gateway.store.trackers });
  onTestFinished(() => client.close());
  const id = await client.upload(Buffer.from('of FastDFS'), { extension: 'txt' });
  await call('GET /{group}/{*}', `/${id}`);
  const length = { ...TUS, 'upload-length': '5', ...metadata('a') };
  const begun = await call('POST /uploads', '/uploads', length);
  await call('POST /uploads/{id} tus', '/uploads/avatars', length);
  const own = `/uploads/${begun.location.split('/').at(-1)}`;
  await call('PATCH /uploads/{id}', own, { ...TUS, ...BYTES }, 'hello');
  await call('HEAD /uploads/{id}', own, TUS);
  const ended = await call('POST /uploads ended', '/uploads', length);
  const last = `/uploads/${ended.location.split('/').at(-1)}`;
  await call('DELETE /uploads/{id}', last, TUS);
  const partial = { ...length, 'upload-concat': 'partial', ...BYTES };
  const half = await call('POST /uploads part', '/uploads', partial, 'hello');
  const joined = { ...TUS, 'upload-concat': `final;${half.location}` };
  await call('POST /uploads joined', '/uploads', joined);
  const api = JSON.parse((await call('GET /openapi.json', '/openapi.json')).text) as {
    servers: readonly { url: string }[];
    paths: Record<string, Record<string, object>>;
  };
  await call('DELETE /files/{key}', `/files/${key}`);
  await call('DELETE /files', '/files?group=g');
  await call('DELETE /{group}/{*}', `/${id}`);
  // Every operation was called.
  for (const [path, methods] of Object.entries(api.paths)) {
    for (const method of Object.keys(methods)) {
      if (method !== 'head')
        expect([...answers.keys()]).toContain(`${method.toUpperCase()} ${path}`);
    }
  }
  answers.set('GET /openapi.json', api.servers[0]!.url);
  return answers;
}

/** Those that have no URL. */
const WITHOUT = [
  'POST /keys',
  'PATCH /keys/{id}',
  'DELETE /keys/{id}',
  'POST /flush',
  'GET /groups',
  'DELETE /uploads/{id}',
  ...['GET /policies', 'PUT /policies/{name}', 'DELETE /policies/{name}'],
  ...['GET /files/{key}', 'GET /files/{key}/{filename}', 'GET /{group}/{*}'],
  ...['GET /console/state', 'GET /console/history', 'GET /console/access'],
  ...['GET /health/live', 'GET /health/ready', 'GET /metrics'],
  ...['DELETE /files', 'DELETE /files/{key}', 'DELETE /{group}/{*}'],
];

const PREFIX: Headers = { 'x-forwarded-prefix': '/storage' };

test.each<[string, GatewayInput, Headers, string]>([
  ['a trusted proxy', { trustProxy: ['loopback'] }, PREFIX, '/storage'],
  ['a chain of them', { trustProxy: ['127.0.0.1'] }, { 'x-forwarded-prefix': '/a/, /b' }, '/a/b'],
  ['the public path', { publicUrl: '/cdn/storage/' }, {}, '/cdn/storage'],
  [
    'the public URL, whatever a proxy says',
    { publicUrl: 'https://cdn.example/storage', trustProxy: ['loopback'] },
    { 'x-forwarded-prefix': '/other' },
    'https://cdn.example/storage',
  ],
])('every URL in an answer begins as %s says', async (_, input, headers, base) => {
  const answers = await walk(input, headers);
  for (const [name, text] of answers) {
    if (name === 'GET /openapi.json') {
      expect(text).toBe(base);
      continue;
    }
    const found = [...text.matchAll(/([^\s"]*)\/(files|uploads)\/[\w-]{22}(?![\w-])/g)];
    expect([name, found.length > 0]).toEqual([name, !WITHOUT.includes(name)]);
    for (const [url, before] of found) expect([name, url, before]).toEqual([name, url, base]);
  }
});

test.each<[string, GatewayInput, readonly string[]]>([
  ['no proxy is trusted', {}, ['/storage']],
  ['another one is trusted', { trustProxy: ['10.0.0.0/8', '::2'] }, ['/storage']],
  [
    'it is no path',
    { trustProxy: ['loopback'] },
    [
      ...['//evil.example', 'https://evil.example', '/\\evil.example', '/storage, evil'],
      ...['/a/../b', '/a/%2e%2e/b', '/a'.repeat(200)],
    ],
  ],
])('X-Forwarded-Prefix is ignored where %s', async (_, input, prefixes) => {
  const { url, apiKey } = await guardedGateway(input);
  const host = { 'x-forwarded-host': 'evil.example', 'x-forwarded-proto': 'https' };
  for (const prefix of prefixes) {
    const headers = { 'x-api-key': apiKey, 'x-forwarded-prefix': prefix, ...host };
    const { headers: answer } = await fetch(`${url}/files`, { method: 'POST', headers, body: 'x' });
    expect(answer.get('location'), prefix).toMatch(/^\/files\/[\w-]{22}$/);
  }
});

test.each([
  [{ trustProxy: 'proxy.example' }, '--trust-proxy: "proxy.example" is no address; write'],
  [{ trustProxy: '10.0.0.0/8/8' }, '--trust-proxy: "10.0.0.0/8/8" is no address; write'],
  [{ trustProxy: '10.0.0.0/33' }, '--trust-proxy: '],
  [{ publicUrl: 'cdn.example' }, '--public-url: "cdn.example" is no URL without a query; write'],
  [{ publicUrl: 'ftp://cdn.example/' }, '--public-url: '],
  [{ publicUrl: '//cdn.example/a' }, '--public-url: '],
  [{ publicUrl: 'https://user@cdn.example/a' }, '--public-url: '],
  [{ publicUrl: 'https://cdn.example/a?b' }, '--public-url: '],
])('%j is refused', (flags, message) => {
  expect(() => parseGatewayOptions({ flags })).toThrow(message);
});

test('a proxy is trusted by its address, whichever way it is written', () => {
  const trusts = trustedProxies(['loopback', '10.0.0.0/8', '192.0.2.1', '2001:db8::/32']);
  const own = ['127.0.0.1', '127.9.9.9', '::1', '::ffff:127.0.0.1', '10.1.2.3', '::ffff:10.1.2.3'];
  for (const address of [...own, '192.0.2.1', '2001:db8:1::2']) expect(trusts(address)).toBe(true);
  const others = ['11.0.0.1', '192.0.2.2', '::2', '2001:db9::1', '::ffff:11.0.0.1'];
  for (const address of [...others, 'unknown', '', undefined]) expect(trusts(address)).toBe(false);
});

test('signed URLs and connect() work below a path', async () => {
  const { url, apiKey } = await guardedGateway({ trustProxy: ['loopback'] });
  const proxy = `${await strippingProxy(url, '/storage')}/storage`;
  const soon = new Date(Date.now() + 60_000);
  const posted = await fetch(proxy + presignedUpload(SECRET, soon), { method: 'POST', body: 'x' });
  expect(posted.status).toBe(201);
  const { key, url: path } = (await posted.json()) as { key: string; url: string };
  expect(path).toBe(`/storage/files/${key}`);
  const read = await fetch(proxy + signedDownload(SECRET, key, soon));
  expect([read.status, await read.text()]).toEqual([200, 'x']);
  const store = await connect({ url: proxy, apiKey });
  onTestFinished(() => store.close());
  const put = await store.put(Buffer.from('hello'), { group: 'g' });
  expect((await (await store.get(put.key)).bytes()).toString()).toBe('hello');
  expect((await store.list({ group: 'g' })).files).toMatchObject([{ key: put.key }]);
  await store.delete(put.key);
  const resumable = presignedUpload(SECRET, soon).replace('/files', '/uploads');
  const headers = { ...TUS, 'upload-length': '5' };
  const begun = await fetch(proxy + resumable, { method: 'POST', headers });
  const at = new URL(begun.headers.get('location')!, proxy);
  const sent = { method: 'PATCH', headers: { ...TUS, ...BYTES }, body: 'hello' };
  expect((await fetch(at, sent)).status).toBe(204);
});

test('tus-js-client uploads below a path, and goes on after a reload by the stored URL', async () => {
  const { url } = await started({ trustProxy: ['127.0.0.1'] });
  const proxy = `${await strippingProxy(url, '/storage')}/storage`;
  const body = randomBytes(300_000);
  const whole = await send(proxy, body, { chunkSize: 100_000 });
  expect(whole.url).toMatch(new RegExp(`^${proxy}/uploads/`));
  expect((await bytesOf(proxy, whole.key)).equals(body)).toBe(true);
  const begun = await fetch(`${proxy}/uploads`, {
    method: 'POST',
    headers: { ...TUS, ...BYTES, 'upload-length': '300000' },
    body: body.subarray(0, 1000),
  });
  const stored = new URL(begun.headers.get('location')!, proxy).href;
  const rest = await send(proxy, body, { uploadUrl: stored });
  expect((await bytesOf(proxy, rest.key)).equals(body)).toBe(true);
});

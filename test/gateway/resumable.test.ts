import { createHash, randomBytes } from 'node:crypto';
import { readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { StoreError } from '@stevedore/client';
import { type Gateway, type GatewayInput, startGateway } from '@stevedore/gateway';
import { presignedUpload } from '@stevedore/middleware/core';
import { type HttpResponse, Upload, type UploadOptions } from 'tus-js-client';
import { expect, onTestFinished, test, vi } from 'vitest';
import { writeKeyFile } from '../../gateway/dist/access/api-keys.js';
import { cuttingProxy } from '../support/cutting-proxy.js';
import { Random } from '../support/random.js';
import { temporaryFolder } from '../support/temporary.js';
import { newKey } from './guarded.js';
import { RawConnection, raw } from './harness.js';

/** Resumable uploads, held by `tus-js-client` and by requests as the protocol's text has them. */

async function started(input: GatewayInput = {}): Promise<Gateway & { directory: string }> {
  const directory = input.directory ?? temporaryFolder();
  const ports = { port: 0, trackerPort: 0, storagePort: 0 } as const;
  const gateway = await startGateway({
    ...ports,
    trunkSize: '4MiB',
    smallFileLimit: '1MiB',
    ...input,
    directory,
  });
  onTestFinished(() => gateway.close());
  return Object.assign(gateway, { directory });
}

interface Uploaded {
  readonly url: string;
  readonly key: string | undefined;
}

function send(
  url: string,
  body: Buffer | Readable,
  options: Partial<UploadOptions> = {},
): Promise<Uploaded> {
  return new Promise((resolve, reject) => {
    let key: string | undefined;
    const upload = new Upload(body, {
      endpoint: `${url}/uploads`,
      retryDelays: [0, 10, 20, 40, 80],
      metadata: { filename: 'grüße.txt', filetype: 'text/plain' },
      onAfterResponse: (_request, response: HttpResponse) => {
        key = response.getHeader('X-File-Key') ?? key;
      },
      ...options,
      onError: reject,
      onSuccess: () => resolve({ url: upload.url!, key }),
    });
    upload.start();
  });
}

async function bytesOf(url: string, key: string | undefined): Promise<Buffer> {
  const response = await fetch(`${url}/files/${key}`);
  expect(response.status).toBe(200);
  return Buffer.from(await response.arrayBuffer());
}

const TUS = { 'tus-resumable': '1.0.0' };

async function tus(
  url: string,
  method: string,
  headers: Record<string, string> = {},
  body?: string | Buffer,
) {
  const type = method === 'PATCH' ? { 'content-type': 'application/offset+octet-stream' } : {};
  const response = await fetch(url, {
    method,
    headers: { ...TUS, ...type, ...headers },
    ...(body === undefined ? {} : { body }),
  });
  const text = await response.text();
  const { code } = text.startsWith('{') ? (JSON.parse(text) as { code: string }) : {};
  return { status: response.status, code, headers: response.headers };
}

async function begun({ url }: Gateway, size: number, headers: Record<string, string> = {}) {
  const answer = await tus(`${url}/uploads`, 'POST', { 'upload-length': `${size}`, ...headers });
  expect(answer.status).toBe(201);
  return url + answer.headers.get('location');
}

function offsetOf({ headers }: { headers: Headers }): number {
  return Number(headers.get('upload-offset'));
}

const WAYS: readonly [string, number, Partial<UploadOptions>][] = [
  ['one request, a small file', 20_000, {}],
  ['one request, a file stored whole', 6_000_000, {}],
  ['requests of 1 MB', 6_000_000, { chunkSize: 1_000_000 }],
  ['the request that begins it', 300_000, { uploadDataDuringCreation: true }],
  ['three parts at once', 5_000_000, { parallelUploads: 3 }],
  ['POST with another method named', 50_000, { overridePatchMethod: true }],
  ['nothing: an empty file', 0, {}],
];

for (const [way, size, options] of WAYS) {
  test(`a client sends a file by ${way}`, async () => {
    const { url, store, directory } = await started();
    const body = randomBytes(size);
    const sent = await send(url, body, options);
    expect(sent.key).toMatch(/^[\w-]{22}$/);
    expect(sent.url).toBe(`${url}/uploads/${sent.key}`);
    expect((await bytesOf(url, sent.key)).equals(body)).toBe(true);
    const { name, type } = await store.stat(sent.key!);
    expect([name, type]).toEqual(['grüße.txt', 'text/plain']);
    expect(readdirSync(join(directory, 'unfinished'))).toEqual([]);
  });
}

test('a client that does not know the length sends a stream', async () => {
  const { url } = await started();
  const body = randomBytes(2_500_000);
  const { key } = await send(url, Readable.from([body]), {
    uploadLengthDeferred: true,
    chunkSize: 700_000,
  });
  expect((await bytesOf(url, key)).equals(body)).toBe(true);
});

test('connections that are cut cost what was under way, and no more', async () => {
  const { url } = await started();
  const proxy = await cuttingProxy(Number(new URL(url).port));
  const random = new Random(3);
  const body = randomBytes(12_000_000);
  let cuts = 0;
  proxy.cutAfterBytes = () => {
    if (cuts === 8) return undefined;
    cuts += 1;
    return 200_000 + random.below(2_500_000);
  };
  const offsets: number[] = [];
  const { key } = await send(proxy.url, body, {
    onBeforeRequest: (request) => {
      const offset = request.getHeader('Upload-Offset');
      if (offset !== undefined) offsets.push(Number(offset));
    },
  });
  expect((await bytesOf(url, key)).equals(body)).toBe(true);
  expect(cuts).toBe(8);
  // It went on each time, and never from the beginning.
  expect(offsets.length).toBeGreaterThan(4);
  expect(offsets.slice(1).every((offset, index) => offset >= offsets[index]!)).toBe(true);
  expect(offsets.at(-1)).toBeGreaterThan(2_000_000);
});

test('what was acknowledged is there after a restart, and goes on', async () => {
  const directory = temporaryFolder();
  const first = await started({ directory });
  const upload = await begun(first, 1_000_000, { 'upload-metadata': 'filename YS50eHQ=' });
  const body = randomBytes(1_000_000);
  const patch = (offset: number, end: number, at: string) =>
    tus(at, 'PATCH', { 'upload-offset': `${offset}` }, body.subarray(offset, end));
  expect((await patch(0, 400_000, upload)).status).toBe(204);
  await first.close();
  const second = await started({ directory });
  const again = second.url + new URL(upload).pathname;
  const head = await tus(again, 'HEAD');
  expect(head.headers.get('cache-control')).toBe('no-store');
  expect(head.headers.get('upload-metadata')).toBe('filename YS50eHQ=');
  expect([offsetOf(head), head.headers.get('upload-length')]).toEqual([400_000, '1000000']);
  const ended = await patch(400_000, 1_000_000, again);
  const key = ended.headers.get('x-file-key');
  expect(ended.headers.get('content-location')).toBe(`/files/${key}`);
  expect((await bytesOf(second.url, key!)).equals(body)).toBe(true);
  // Who did not hear of the end asks, and is told.
  const late = await tus(again, 'HEAD');
  expect([offsetOf(late), late.headers.get('x-file-key')]).toEqual([1_000_000, key]);
});

test('the offset after a cut connection is where the next bytes belong', async () => {
  const gateway = await started();
  const upload = await begun(gateway, 500_000_000);
  const { pathname, port, host } = new URL(upload);
  let offset = 0;
  for (let cut = 0; cut < 8; cut += 1) {
    const client = new RawConnection(Number(port));
    await client.send(
      `PATCH ${pathname} HTTP/1.1\r\nHost: ${host}\r\nTus-Resumable: 1.0.0\r\nUpload-Offset: ${offset}\r\nContent-Type: application/offset+octet-stream\r\nContent-Length: 20000000\r\n\r\n`,
    );
    // More than the sockets between hold: some has been read when this resolves.
    await client.send(Buffer.alloc(12_000_000));
    client.socket.destroy();
    offset = offsetOf(await tus(upload, 'HEAD'));
    const next = await tus(upload, 'PATCH', { 'upload-offset': `${offset}` }, Buffer.alloc(10));
    expect([next.status, offsetOf(next)]).toEqual([204, offset + 10]);
    offset += 10;
  }
});

test('an upload that has all of its bytes and was not finished is, when its client asks', async () => {
  const { store, url } = await started();
  const uploads = store.unfinished!;
  const note = { scope: '', metadata: '', isPart: false, checkContent: false, maxBytes: 10 };
  const { id } = await uploads.begin({ size: 5, note: JSON.stringify(note) });
  await uploads.append(id, 0, Readable.from([Buffer.from('whole')]));
  expect((await fetch(`${url}/files/${id}`)).status).toBe(404);
  const head = await tus(`${url}/uploads/${id}`, 'HEAD');
  expect([offsetOf(head), head.headers.get('x-file-key')]).toEqual([5, id]);
  expect((await bytesOf(url, id)).toString()).toBe('whole');
});

test('of two tabs the one that stalls gives way', async () => {
  const gateway = await started();
  const upload = await begun(gateway, 20);
  const { pathname, port, host } = new URL(upload);
  const stalled = new RawConnection(Number(port));
  await stalled.send(
    `PATCH ${pathname} HTTP/1.1\r\nHost: ${host}\r\nTus-Resumable: 1.0.0\r\nUpload-Offset: 0\r\nContent-Type: application/offset+octet-stream\r\nContent-Length: 20\r\n\r\n0123456`,
  );
  // Until its bytes have come, the other finds none.
  let offset = 0;
  while (offset === 0) offset = offsetOf(await tus(upload, 'HEAD'));
  expect(offset).toBe(7);
  const ended = await tus(upload, 'PATCH', { 'upload-offset': '7' }, '789abcdefghij');
  expect((await bytesOf(gateway.url, ended.headers.get('x-file-key')!)).toString()).toBe(
    '0123456789abcdefghij',
  );
  stalled.socket.destroy();
}, 30_000);

test('the checksum of a request is held against its bytes', async () => {
  const gateway = await started();
  const upload = await begun(gateway, 10);
  const sum = (text: string, name = 'sha1') =>
    `${name} ${createHash(name).update(text).digest('base64')}`;
  const patch = (offset: number, body: string, checksum: string) =>
    tus(upload, 'PATCH', { 'upload-offset': `${offset}`, 'upload-checksum': checksum }, body);
  expect(await patch(0, '01234', sum('01235'))).toMatchObject({
    status: 460,
    code: 'checksum_mismatch',
  });
  expect(offsetOf(await tus(upload, 'HEAD'))).toBe(0);
  expect((await patch(0, '01234', 'sha3 AAAA')).code).toBe('unsupported_digest');
  expect((await patch(0, '01234', 'sha1 AAAA')).code).toBe('invalid_digest');
  expect((await patch(0, '01234', sum('01234'))).status).toBe(204);
  // CRC-32 of "56789", by `crc32` of another program.
  expect((await patch(5, '56789', 'crc32 5cACoQ==')).status).toBe(460);
  expect((await patch(5, '56789', sum('56789', 'md5'))).status).toBe(204);
});

test('what the protocol does not allow is a problem with its headers', async () => {
  const gateway = await started({ maxFileSize: '1MiB' });
  const at = `${gateway.url}/uploads`;
  const upload = await begun(gateway, 10);
  const nobody = `${at}/${'A'.repeat(22)}`;
  const cases: [Promise<{ status: number; code: string | undefined }>, number, string][] = [
    [tus(at, 'POST', { 'tus-resumable': '0.9' }), 412, 'tus_version'],
    [tus(at, 'POST', {}), 400, 'bad_request'],
    [tus(at, 'POST', { 'upload-length': 'x' }), 400, 'bad_request'],
    [tus(at, 'POST', { 'upload-length': '2000000' }), 413, 'too_large'],
    [tus(at, 'POST', { 'upload-length': '1', 'upload-metadata': 'a,,b' }), 400, 'bad_request'],
    [tus(upload, 'PATCH', { 'upload-offset': '3' }, 'x'), 409, 'offset_mismatch'],
    [tus(upload, 'PATCH', {}, 'x'), 400, 'bad_request'],
    [tus(upload, 'PATCH', { 'upload-offset': '0' }, '01234567890'), 413, 'too_large'],
    [tus(upload, 'PATCH', { 'content-type': 'text/plain' }, 'x'), 415, 'invalid_media_type'],
    [tus(nobody, 'PATCH', { 'upload-offset': '0' }, 'x'), 404, 'not_found'],
    [tus(`${at}/..%2fetc`, 'PATCH', { 'upload-offset': '0' }, 'x'), 400, 'invalid_key'],
    [tus(at, 'POST', { 'upload-concat': 'final;' }), 400, 'bad_request'],
    [tus(at, 'POST', { 'upload-concat': `final;${nobody}` }), 404, 'not_found'],
    [tus(upload, 'PUT'), 405, 'method_not_allowed'],
    [tus(`${gateway.url}/files`, 'POST', { 'upload-length': '1' }), 501, 'tus_not_supported'],
  ];
  for (const [answer, status, code] of cases) {
    expect(await answer).toMatchObject({ status, code });
  }
  expect((await tus(nobody, 'HEAD')).status).toBe(404);
  expect((await tus(upload, 'DELETE')).status).toBe(204);
  expect((await tus(upload, 'HEAD')).status).toBe(404);
  expect(gateway.store.stats()).toMatchObject({ unfinishedUploads: 0, unfinishedBytes: 0 });
});

test('a request that is refused with its body under way is answered, and its connection ends', async () => {
  const gateway = await started();
  const { pathname, port, host } = new URL(await begun(gateway, 100_000_000));
  const head = `PATCH ${pathname} HTTP/1.1\r\nHost: ${host}\r\nTus-Resumable: 1.0.0\r\nUpload-Offset: 5\r\nContent-Type: application/offset+octet-stream\r\nContent-Length: 99999995\r\n\r\n`;
  const answer = await raw(Number(port), head, Buffer.alloc(8_000_000));
  expect(answer.status).toBe(409);
  expect(answer.head).toMatch(/^connection: close$/im);
});

test('an upload that nobody finishes is removed with its bytes', async () => {
  const gateway = await started({ unfinishedAge: '1s' });
  const upload = await begun(gateway, 10);
  expect((await tus(upload, 'PATCH', { 'upload-offset': '0' }, '01234')).status).toBe(204);
  const head = await tus(upload, 'HEAD');
  expect([200, 404]).toContain(head.status);
  await expect
    .poll(() => readdirSync(join(gateway.directory, 'unfinished')), { timeout: 30_000 })
    .toEqual([]);
  expect((await tus(upload, 'HEAD')).status).toBe(404);
}, 60_000);

test('unfinished uploads have half of the container, and give it back', async () => {
  const gateway = await started({ containerSize: '8MiB' });
  const upload = await begun(gateway, 6_000_000);
  const patch = (offset: number, bytes: number, at: string) =>
    tus(at, 'PATCH', { 'upload-offset': `${offset}` }, Buffer.alloc(bytes));
  for (const offset of [0, 1_500_000]) {
    expect(await patch(offset, 1_500_000, upload)).toMatchObject({ status: 204 });
  }
  const full = await patch(3_000_000, 1_500_000, upload);
  expect([full.status, full.code]).toEqual([507, 'container_full']);
  const other = await tus(`${gateway.url}/uploads`, 'POST', { 'upload-length': '1' });
  expect(other.code).toBe('container_full');
  expect((await fetch(`${gateway.url}/files`, { method: 'POST', body: 'x' })).status).toBe(201);
  await tus(upload, 'DELETE');
  expect((await patch(0, 1, await begun(gateway, 1))).status).toBe(204);
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

test('API keys: an upload is that of the key that began it, and counts to its quota', async () => {
  const apiKeys = join(temporaryFolder(), 'keys.json');
  const now = { createdAt: new Date().toISOString() };
  const [own, other] = [newKey({ ...now, bytesPerDay: 1000 }), newKey(now)];
  await writeKeyFile(apiKeys, [own.key, other.key]);
  const gateway = await started({ apiKeys });
  const as = (key: string) => ({ authorization: `Bearer ${key}` });
  const at = `${gateway.url}/uploads`;
  expect((await tus(at, 'POST', { 'upload-length': '5' })).status).toBe(401);
  const upload = await begun(gateway, 900, as(own.text));
  const patch = (offset: number, bytes: number, key: string) =>
    tus(upload, 'PATCH', { 'upload-offset': `${offset}`, ...as(key) }, Buffer.alloc(bytes));
  expect((await tus(upload, 'HEAD')).status).toBe(401);
  expect((await patch(0, 10, other.text)).status).toBe(404);
  expect((await tus(upload, 'DELETE', as(other.text))).status).toBe(404);
  expect((await patch(0, 800, own.text)).status).toBe(204);
  const second = await tus(at, 'POST', { 'upload-length': '900', ...as(own.text) });
  expect(second.code).toBe('too_large');
  expect((await patch(800, 100, own.text)).headers.get('x-file-key')).toBeTruthy();
  const third =
    gateway.url +
    (await tus(at, 'POST', { 'upload-length': '100', ...as(own.text) })).headers.get('location');
  expect(
    (await tus(third, 'PATCH', { 'upload-offset': '0', ...as(own.text) }, Buffer.alloc(100)))
      .status,
  ).toBe(204);
  expect((await tus(at, 'POST', { 'upload-length': '1', ...as(own.text) })).code).toBe(
    'quota_exceeded',
  );
});

test('a presigned URL begins one upload, whose own URL is enough from then on', async () => {
  const apiKeys = join(temporaryFolder(), 'keys.json');
  await writeKeyFile(apiKeys, []);
  const gateway = await started({ apiKeys, urlSecret: 'secret of this test' });
  const soon = new Date(Date.now() + 60_000);
  const signed = presignedUpload('secret of this test', soon).replace('/files', '/uploads');
  const { key, url } = await send(gateway.url, randomBytes(5000), {
    endpoint: gateway.url + signed,
    chunkSize: 2000,
  });
  expect(url).toBe(`${gateway.url}/uploads/${key}`);
  const again = await tus(gateway.url + signed, 'POST', { 'upload-length': '5' });
  expect([again.status, again.code]).toEqual([403, 'signature_expired']);
});

test('an upload belongs to its client, whose address is not stored', async () => {
  const gateway = await started();
  const begin = vi.spyOn(gateway.store.unfinished!, 'begin');
  await tus(`${gateway.url}/uploads`, 'POST', { 'upload-length': '10' });
  await tus(`${gateway.url}/uploads`, 'POST', { 'upload-length': '20' });
  const [first, second] = begin.mock.calls.map(([options]) => options?.owner);
  expect(first).toMatch(/^[\w-]{22}$/);
  expect(second).toBe(first);
  const refused = () => {
    throw new StoreError('too_many_unfinished', '1000 uploads of this client are unfinished');
  };
  begin.mockImplementationOnce(refused);
  const answer = await tus(`${gateway.url}/uploads`, 'POST', { 'upload-length': '30' });
  expect(answer.status).toBe(429);
});

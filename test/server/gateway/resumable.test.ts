import { createHash, randomBytes } from 'node:crypto';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { presignedUpload } from '@stevedore/middleware/core';
import type { UploadOptions } from 'tus-js-client';
import { expect, test } from 'vitest';
import { cuttingProxy } from '../../support/cutting-proxy.js';
import { RawConnection, raw } from '../../support/gateway/harness.js';
import { begun, bytesOf, offsetOf, send, started, tus } from '../../support/gateway/tus.js';
import { Random } from '../../support/random.js';
import { ofSuite, temporaryFolder } from '../../support/temporary.js';

/** Resumable uploads, held by `tus-js-client` and by requests as the protocol's text has them. */

/** For all tests that need no other one. */
const gateway = await started({}, {}, ofSuite);
const { url, store } = gateway;

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
    const unfinished = () => readdirSync(join(gateway.directory, 'unfinished'));
    const before = unfinished();
    const body = randomBytes(size);
    const sent = await send(url, body, options);
    expect(sent.key).toMatch(/^[\w-]{22}$/);
    expect(sent.url).toBe(`${url}/uploads/${sent.key}`);
    expect((await bytesOf(url, sent.key)).equals(body)).toBe(true);
    const { name, type } = await store.stat(sent.key!);
    expect([name, type]).toEqual(['grüße.txt', 'text/plain']);
    expect(unfinished()).toEqual(before);
  });
}

test('a client that does not know the length sends a stream', async () => {
  const body = randomBytes(2_500_000);
  const { key } = await send(url, Readable.from([body]), {
    uploadLengthDeferred: true,
    chunkSize: 700_000,
  });
  expect((await bytesOf(url, key)).equals(body)).toBe(true);
});

test('connections that are cut cost what was under way, and no more', async () => {
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

test('the end of a finished upload can be sent again, with no bytes', async () => {
  for (const content of ['', '01']) {
    const upload = await begun(gateway, content.length);
    const patch = (at: number, body: string) =>
      tus(upload, 'PATCH', { 'upload-offset': `${at}` }, body);
    if (content !== '') expect((await patch(0, content)).status).toBe(204);
    const again = await patch(content.length, '');
    const key = again.headers.get('x-file-key')!;
    expect([again.status, offsetOf(again)]).toEqual([204, content.length]);
    expect((await bytesOf(gateway.url, key)).toString()).toBe(content);
    expect((await patch(content.length + 1, '')).status).toBe(409);
    expect((await patch(content.length, 'x')).status).toBe(413);
  }
});

test('a body without a length that is longer than its upload is refused', async () => {
  for (const at of [await begun(gateway, 5), await begun(gateway, 0)]) {
    const { pathname, port, host } = new URL(at);
    const client = new RawConnection(Number(port));
    await client.send(
      `PATCH ${pathname} HTTP/1.1\r\nHost: ${host}\r\nTus-Resumable: 1.0.0\r\nUpload-Offset: 0\r\nContent-Type: application/offset+octet-stream\r\nTransfer-Encoding: chunked\r\n\r\n8\r\n12345678\r\n0\r\n\r\n`,
    );
    expect(await client.sees(/}/)).toMatch(/^HTTP\/1\.1 413 .*"code":"too_large"/s);
  }
});

test('an upload that has all of its bytes and was not finished is, when its client asks', async () => {
  const uploads = store.unfinished!;
  const note = { scope: '', metadata: '', isPart: false, checkContent: false, maxBytes: 10 };
  const { id } = await uploads.begin({ size: 5, note: JSON.stringify(note) });
  await uploads.append(id, 0, Readable.from([Buffer.from('whole')]));
  expect((await fetch(`${url}/files/${id}`)).status).toBe(404);
  const head = await tus(`${url}/uploads/${id}`, 'HEAD');
  expect([offsetOf(head), head.headers.get('x-file-key')]).toEqual([5, id]);
  expect((await bytesOf(url, id)).toString()).toBe('whole');
});

test('a URL of uploads tells of what was uploaded there, and of no other file', async () => {
  const urlSecret = ['a secret of the tests'];
  const gateway = await started({ urlSecret });
  const posted = await fetch(`${gateway.url}/files`, { method: 'POST', body: 'private' });
  const { key } = (await posted.json()) as { key: string };
  const other = `${gateway.url}/uploads/${key}`;
  expect((await fetch(`${gateway.url}/files/${key}/info`)).status).toBe(401);
  expect((await tus(other, 'HEAD')).status).toBe(404);
  expect((await tus(other, 'PATCH', { 'upload-offset': '0' }, 'x')).status).toBe(404);
  const soon = new Date(Date.now() + 60_000);
  const oneTime = presignedUpload(urlSecret[0]!, soon).replace('/files', '/uploads');
  for (const endpoint of ['/uploads', oneTime]) {
    const ended = await send(gateway.url, Buffer.from('whole'), {
      endpoint: gateway.url + endpoint,
    });
    const head = await tus(ended.url, 'HEAD');
    expect([offsetOf(head), head.headers.get('x-file-key')]).toEqual([5, ended.key]);
  }
});

test('of two tabs the one that stalls gives way', async () => {
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

test('two tabs that send the same upload at once both get its file', async () => {
  const body = randomBytes(3_000_000);
  const uploadUrl = await begun(gateway, body.length);
  const tab = () => send(gateway.url, body, { uploadUrl, chunkSize: 300_000 });
  const tabs = await Promise.all([tab(), tab()]);
  const key = uploadUrl.split('/').at(-1);
  expect(tabs).toEqual(tabs.map(() => ({ url: uploadUrl, key })));
  expect((await bytesOf(gateway.url, key)).equals(body)).toBe(true);
});

test('the checksum of a request is held against its bytes', async () => {
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
  for (const [at, algorithm] of ['sha1', 'sha256', 'sha512'].entries()) {
    expect((await patch(at, `${at}`, sum(`${at}`, algorithm))).status).toBe(204);
  }
  expect((await patch(3, '34', sum('34'))).status).toBe(204);
  expect((await patch(5, '567', sum('568', 'md5'))).status).toBe(460);
  expect((await patch(5, '567', sum('567', 'md5'))).status).toBe(204);
  const ended = await patch(8, '89', sum('89', 'md5'));
  expect((await bytesOf(gateway.url, ended.headers.get('x-file-key')!)).toString()).toBe(
    '0123456789',
  );
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
    [tus(upload, 'POST', { 'x-http-method-override': 'FOO BAR' }), 405, 'method_not_allowed'],
    [tus(upload, 'POST', { 'x-http-method-override': 'CONNECT' }), 405, 'method_not_allowed'],
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

test('unfinished uploads have half of the container, a client what it leaves to others', async () => {
  const gateway = await started({ containerSize: '8MiB', trustProxy: ['127.0.0.1'] });
  const at = `${gateway.url}/uploads`;
  const from = (client: number) => ({ 'x-forwarded-for': `192.0.2.${client}` });
  const patch = (upload: string, offset: number, bytes: number) =>
    tus(upload, 'PATCH', { 'upload-offset': `${offset}`, ...from(9) }, Buffer.alloc(bytes));
  const never = await tus(at, 'POST', { 'upload-length': '2200000', ...from(1) });
  expect([never.status, never.code]).toEqual([413, 'too_large']);
  // Alone half of 4 MiB, then half of what the first leaves, whatever they announce.
  const bytes = [1_900_000, 1_000_000, 500_000];
  const uploads: string[] = [];
  for (const [client, fits] of bytes.entries()) {
    const upload = await begun(gateway, 0, { 'upload-defer-length': '1', ...from(client) });
    uploads.push(upload);
    expect((await patch(upload, 0, fits)).status).toBe(204);
    const full = await patch(upload, fits, 400_000);
    expect([full.status, full.code]).toEqual([429, 'client_room_exceeded']);
    expect(full.headers.get('retry-after')).toMatch(/^\d+$/);
    const other = await tus(at, 'POST', { 'upload-length': '400000', ...from(client) });
    expect(other.code).toBe('client_room_exceeded');
  }
  expect((await fetch(`${gateway.url}/files`, { method: 'POST', body: 'x' })).status).toBe(201);
  for (const upload of uploads) expect((await tus(upload, 'DELETE')).status).toBe(204);
  expect(gateway.store.stats().unfinishedBytes).toBe(0);
  const again = await begun(gateway, 2_000_000, from(3));
  expect((await patch(again, 0, 2_000_000)).headers.get('x-file-key')).toBeTruthy();
});

test('requests at the same time do not get past the share of their client', async () => {
  const gateway = await started({ containerSize: '16MiB' });
  const begin = () => begun(gateway, 0, { 'upload-defer-length': '1' });
  const patch = (at: string) => tus(at, 'PATCH', { 'upload-offset': '0' }, Buffer.alloc(900_000));
  const uploads = await Promise.all(Array.from({ length: 10 }, begin));
  // Each may get a part of the share, so perhaps none gets enough.
  const codes = (await Promise.all(uploads.map(patch))).map(({ code }) => code);
  expect(codes).toContain('client_room_exceeded');
  expect(gateway.store.stats().unfinishedBytes).toBeLessThanOrEqual(4 * 2 ** 20);
  for (const at of uploads) expect((await tus(at, 'DELETE')).status).toBe(204);
  expect((await patch(await begin())).status).toBe(204);
});

test('OPTIONS names the extensions, and those that a client could do without work', async () => {
  const { url, store } = await started({ unfinishedAge: '3600s' });
  const options = await tus(`${url}/uploads`, 'OPTIONS');
  expect(options.headers.get('tus-extension')?.split(',')).toEqual([
    ...['creation', 'creation-with-upload', 'creation-defer-length', 'termination'],
    ...['expiration', 'checksum', 'concatenation'],
  ]);
  expect(options.headers.get('tus-checksum-algorithm')).toBe('sha1,sha256,sha512,md5');
  // The first bytes come with the request that creates the upload, or all of them do.
  const first = { 'upload-length': '10', 'content-type': 'application/offset+octet-stream' };
  const begin = await tus(`${url}/uploads`, 'POST', first, '01234');
  expect([begin.status, offsetOf(begin)]).toEqual([201, 5]);
  const expires = Date.parse(begin.headers.get('upload-expires')!);
  const id = begin.headers.get('location')!.split('/').at(-1)!;
  const { createdAt } = store.unfinished!.find(id)!;
  // It counts from the last bytes; a date of HTTP has no milliseconds.
  const seconds = (ms: number): number => Math.floor((ms + 3_600_000) / 1000) * 1000;
  expect(expires).toBeGreaterThanOrEqual(seconds(createdAt.getTime()));
  expect(expires).toBeLessThanOrEqual(seconds(Date.now()));
  const whole = await tus(`${url}/uploads`, 'POST', first, '0123456789');
  expect((await bytesOf(url, whole.headers.get('x-file-key')!)).toString()).toBe('0123456789');
  // Parts become one file in the order of the request, and are gone.
  const parts: string[] = [];
  for (const text of ['01234', '56789']) {
    const part = { ...first, 'upload-length': '5', 'upload-concat': 'partial' };
    const answer = await tus(`${url}/uploads`, 'POST', part, text);
    expect(answer.headers.get('x-file-key')).toBeNull();
    parts.push(url + answer.headers.get('location'));
  }
  const concat = `final;${[...parts].reverse().join(' ')}`;
  const joined = await tus(`${url}/uploads`, 'POST', { 'upload-concat': concat });
  const key = joined.headers.get('x-file-key')!;
  expect([joined.status, joined.headers.get('content-location')]).toEqual([201, `/files/${key}`]);
  expect((await bytesOf(url, key)).toString()).toBe('5678901234');
  for (const part of parts) expect((await tus(part, 'HEAD')).status).toBe(404);
});

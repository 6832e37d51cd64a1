import { once } from 'node:events';
import type { Gateway, GatewayInput } from '@stevedore/gateway';
import { presignedUpload } from '@stevedore/middleware/core';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import type { ApiKey } from '../../../gateway/dist/access/api-keys.js';
import { keyFile, newKey } from '../../support/gateway/guarded.js';
import { offsetOf, started, tus } from '../../support/gateway/tus.js';
import { startGatewayProcess } from '../../support/gateway-process.js';

/** Quotas and one-time URLs count what is stored, whatever was announced and however it came. */

const MIB = 2 ** 20;
const SECRET = 'secret of this test';

async function keyed(limits: readonly Partial<ApiKey>[], input: GatewayInput = {}) {
  const keys = limits.map((limit) => newKey({ createdAt: new Date().toISOString(), ...limit }));
  const apiKeys = await keyFile(...keys);
  const options = { apiKeys, urlSecret: SECRET, ...input };
  const gateway = await started(options);
  const as = keys.map(({ text }) => ({ authorization: `Bearer ${text}` }));
  return { gateway, options, as: as as [Headers, Headers] };
}

type Headers = { readonly authorization: string };

/** A body without a Content-Length. */
function chunked(bytes: number): ReadableStream<Uint8Array> {
  let left = bytes;
  return new ReadableStream({
    pull: (controller) => {
      const piece = Math.min(left, 50_000);
      if (piece > 0) controller.enqueue(new Uint8Array(piece));
      left -= piece;
      if (left === 0) controller.close();
    },
  });
}

async function sendChunked(url: string, method: string, headers: object, bytes: number) {
  const response = await fetch(url, {
    method,
    body: chunked(bytes),
    duplex: 'half',
    headers: headers as Record<string, string>,
  } as RequestInit);
  const text = await response.text();
  return { status: response.status, text, headers: response.headers };
}

const patchHeaders = (offset: number, headers: object = {}) => ({
  'upload-offset': `${offset}`,
  ...headers,
});

async function begin({ url }: Gateway, headers: object, path = '/uploads'): Promise<string> {
  const answer = await tus(url + path, 'POST', { ...headers });
  expect([answer.status, answer.code]).toEqual([201, undefined]);
  return url + answer.headers.get('location');
}

function post({ url }: Gateway, headers: object, bytes: number) {
  const body = Buffer.alloc(bytes);
  return fetch(`${url}/files`, { method: 'POST', body, headers: { ...headers } });
}

/** Bytes on the disk: of files and of unfinished uploads. */
function bytesOf({ store }: Gateway): number {
  const { acknowledgedBytes, unfinishedBytes } = store.stats();
  return acknowledgedBytes + unfinishedBytes;
}

const DEFERRED = { 'upload-defer-length': '1' };

describe('the bytes of a day', () => {
  test('hold for uploads that are joined, and count each part once', async () => {
    const { gateway, as } = await keyed([{ bytesPerDay: 3 * MIB }]);
    const [one] = as;
    const part = async () => {
      const at = await begin(gateway, {
        'upload-concat': 'partial',
        'upload-length': `${MIB}`,
        ...one,
      });
      expect((await tus(at, 'PATCH', patchHeaders(0, one), Buffer.alloc(MIB))).status).toBe(204);
      return at;
    };
    const final = (...urls: string[]) =>
      tus(`${gateway.url}/uploads`, 'POST', {
        'upload-concat': `final;${urls.join(' ')}`,
        'upload-length': '1',
        ...one,
      });
    const parts = [await part(), await part()];
    expect((await final(...Array<string>(100).fill(parts[0]!))).code).toBe('too_large');
    expect((await final(parts[0]!, parts[0]!, parts[0]!)).code).toBe('quota_exceeded');
    const [first, ...others] = await Promise.all([1, 2, 3].map(() => final(...parts)));
    expect([first!.status, ...others.map(({ code }) => code)]).toEqual([
      201,
      ...['upload_under_way', 'upload_under_way'],
    ]);
    expect(bytesOf(gateway)).toBe(2 * MIB);
    // A part that is named twice is stored twice.
    const twice = await part();
    expect((await final(twice, twice)).code).toBe('quota_exceeded');
    expect((await tus(twice, 'DELETE', one)).status).toBe(204);
    expect((await post(gateway, one, MIB)).status).toBe(201);
    expect((await post(gateway, one, 1)).status).toBe(429);
  });

  test('are given back with an upload that is removed, and not with a file', async () => {
    const { gateway, as } = await keyed([{ bytesPerDay: MIB }]);
    const [one] = as;
    for (let round = 0; round < 3; round += 1) {
      const upload = await begin(gateway, { 'upload-length': `${MIB}`, ...one });
      const patch = await tus(upload, 'PATCH', patchHeaders(0, one), Buffer.alloc(MIB - 1));
      expect(patch.status).toBe(204);
      expect((await post(gateway, one, 2)).status).toBe(429);
      expect((await tus(upload, 'DELETE', one)).status).toBe(204);
    }
    const upload = await begin(gateway, { 'upload-length': `${MIB}`, ...one });
    await tus(upload, 'PATCH', patchHeaders(0, one), Buffer.alloc(100));
    const last = await tus(upload, 'PATCH', patchHeaders(100, one), Buffer.alloc(MIB - 100));
    const key = last.headers.get('x-file-key');
    expect(
      (await fetch(`${gateway.url}/files/${key}`, { method: 'DELETE', headers: one })).status,
    ).toBe(204);
    expect((await tus(upload, 'DELETE', one)).status).toBe(404);
    expect((await post(gateway, one, 1)).status).toBe(429);
  });

  test('are not needed to send an upload again that was stored', async () => {
    const { gateway, as } = await keyed([{ bytesPerDay: 1000 }]);
    const headers = { ...as[0], 'idempotency-key': 'one' };
    expect((await post(gateway, headers, 1000)).status).toBe(201);
    const again = await post(gateway, headers, 1000);
    expect([again.status, again.headers.get('idempotency-replayed')]).toEqual([201, 'true']);
    expect((await post(gateway, as[0], 1)).status).toBe(429);
  });
});

describe('a URL for one file', () => {
  const signed = () => presignedUpload(SECRET, new Date(Date.now() + 60_000));
  const resumable = () => signed().replace('/files', '/uploads');
  const LENGTH = { 'upload-length': '5' };

  test('begins one upload at a time, and stores one file', async () => {
    const { gateway } = await keyed([]);
    const path = resumable();
    const answers = await Promise.all(
      Array.from({ length: 30 }, () => tus(gateway.url + path, 'POST', LENGTH)),
    );
    const statuses = answers.map(({ status }) => status).sort();
    expect(statuses).toEqual([201, ...Array<number>(29).fill(409)]);
    const [first] = answers.filter(({ status }) => status === 201);
    const raw = () =>
      fetch(gateway.url + path.replace('/uploads', '/files'), { method: 'POST', body: 'other' });
    expect((await raw()).status).toBe(409);
    const upload = gateway.url + first!.headers.get('location');
    expect((await tus(upload, 'PATCH', patchHeaders(0), 'whole')).status).toBe(204);
    expect((await tus(gateway.url + path, 'POST', LENGTH)).code).toBe('signature_expired');
    expect((await raw()).status).toBe(422);
    expect(gateway.store.stats()).toMatchObject({ acknowledgedFiles: 1, unfinishedUploads: 0 });
    await gateway.store.delete(upload.split('/').at(-1)!);
    expect((await tus(gateway.url + path, 'POST', LENGTH)).code).toBe('signature_expired');
    expect((await raw()).status).toBe(403);
  });

  test('is good again after an upload that stored nothing', async () => {
    const { gateway } = await keyed([]);
    const path = resumable();
    for (let round = 0; round < 3; round += 1) {
      const upload = await begin(gateway, LENGTH, path);
      await tus(upload, 'PATCH', patchHeaders(0), 'ab');
      expect((await tus(upload, 'DELETE')).status).toBe(204);
    }
    const cut = await fetch(gateway.url + path.replace('/uploads', '/files'), {
      method: 'POST',
      body: 'x',
      headers: { 'content-md5': 'AAAAAAAAAAAAAAAAAAAAAA==' },
    });
    expect(cut.status).toBe(400);
    const last = await begin(gateway, LENGTH, path);
    expect((await tus(last, 'PATCH', patchHeaders(0), 'whole')).status).toBe(204);
  });

  test('does not store a second file when a first one came by another way', async () => {
    const { gateway } = await keyed([]);
    const path = resumable();
    const upload = await begin(gateway, LENGTH, path);
    await tus(upload, 'PATCH', patchHeaders(0), 'whol');
    // As another worker would: it does not see the unfinished upload.
    const { searchParams } = new URL(path, gateway.url);
    const { uploadMark } = await import('@stevedore/middleware/core');
    await gateway.store.put('other', { once: uploadMark('presigned', searchParams.get('nonce')!) });
    const late = await tus(upload, 'PATCH', patchHeaders(4), 'e');
    expect([late.status, late.code]).toEqual([403, 'signature_expired']);
    expect(gateway.store.stats()).toMatchObject({ acknowledgedFiles: 1, unfinishedUploads: 0 });
  });

  test('holds its mark over a restart, and over a kill', async () => {
    const { gateway, options } = await keyed([]);
    const path = resumable();
    const upload = new URL(await begin(gateway, LENGTH, path)).pathname;
    await gateway.close();
    const second = await started({ ...options, directory: gateway.directory });
    expect((await tus(second.url + path, 'POST', LENGTH)).code).toBe('upload_under_way');
    await second.close();
    const flags = ['--api-keys', options.apiKeys, '--url-secret', SECRET];
    const killed = await startGatewayProcess(gateway.directory, ...flags);
    const patch = await tus(killed.url + upload, 'PATCH', patchHeaders(0), 'who');
    expect(patch.status).toBe(204);
    const gone = once(killed.child, 'exit');
    killed.child.kill('SIGKILL');
    await gone;
    const third = await startGatewayProcess(gateway.directory, ...flags);
    expect((await tus(third.url + path, 'POST', LENGTH)).code).toBe('upload_under_way');
    expect((await tus(third.url + upload, 'PATCH', patchHeaders(3), 'le')).status).toBe(204);
    expect((await tus(third.url + path, 'POST', LENGTH)).code).toBe('signature_expired');
    await third.stop();
  }, 60_000);
});

test('an upload, unfinished or a file, is there for the key that began it alone', async () => {
  const { gateway, as, options } = await keyed([{}, {}]);
  const [one, other] = as;
  const stored = (await (await post(gateway, one, 5)).json()) as { key: string };
  const upload = await begin(gateway, { 'upload-length': '5', ...one });
  const seen = async (url: string, headers: object) => {
    const { status, headers: answer } = await tus(url, 'HEAD', { ...headers });
    const { date: _, 'x-request-id': __, ...facts } = Object.fromEntries(answer);
    return { status, ...facts };
  };
  const unknown = await seen(`${gateway.url}/uploads/AAAAAAAAAAAAAAAAAAAAAA`, other);
  expect(unknown.status).toBe(404);
  const hidden = async () => {
    expect(await seen(upload, other)).toEqual(unknown);
    // A file that was no resumable upload is none for anybody.
    expect(await seen(`${gateway.url}/uploads/${stored.key}`, one)).toEqual(unknown);
    expect(await seen(`${gateway.url}/uploads/${stored.key}`, other)).toEqual(unknown);
    const patch = await tus(upload, 'PATCH', patchHeaders(0, other), 'x');
    expect([patch.status, patch.code]).toEqual([404, 'not_found']);
    const remove = await tus(upload, 'DELETE', other);
    expect([remove.status, remove.code]).toEqual([404, 'not_found']);
  };
  await hidden();
  expect((await tus(upload, 'PATCH', patchHeaders(0, one), 'whole')).status).toBe(204);
  await hidden();
  const finished = await tus(upload, 'HEAD', one);
  expect([finished.status, offsetOf(finished)]).toEqual([200, 5]);
  await gateway.close();
  const again = await started({ ...options, directory: gateway.directory });
  const url = again.url + new URL(upload).pathname;
  expect((await tus(url, 'HEAD', one)).headers.get('x-file-key')).toBe(url.split('/').at(-1));
  expect((await tus(url, 'HEAD', other)).status).toBe(404);
});

test('a request that begins an upload, and fails, leaves nothing behind', async () => {
  const { gateway, as } = await keyed([{ bytesPerDay: MIB }]);
  const [one] = as;
  const type = { 'content-type': 'application/offset+octet-stream' };
  const headers = { 'tus-resumable': '1.0.0', ...DEFERRED, ...type, ...one };
  const url = `${gateway.url}/uploads`;
  const full = await sendChunked(url, 'POST', headers, MIB + 1);
  expect([full.status, full.headers.get('location')]).toEqual([429, null]);
  const cut = new AbortController();
  const body = new ReadableStream({
    start: (controller) => controller.enqueue(new Uint8Array(300_000)),
  });
  const init = { method: 'POST', body, duplex: 'half', headers, signal: cut.signal };
  const sent = fetch(url, init as RequestInit).catch(() => 'cut');
  await expect.poll(() => gateway.store.stats().unfinishedUploads).toBe(1);
  cut.abort();
  expect(await sent).toBe('cut');
  await expect.poll(() => gateway.store.stats().unfinishedUploads).toBe(0);
  await expect.poll(async () => (await post(gateway, one, MIB)).status).toBe(201);
});

test('a join that finds no room leaves nothing behind', async () => {
  const { gateway, as } = await keyed([{}], { containerSize: '8MiB' });
  const [one] = as;
  const part = await begin(gateway, {
    'upload-concat': 'partial',
    'upload-length': '900000',
    ...one,
  });
  await tus(part, 'PATCH', patchHeaders(0, one), Buffer.alloc(900_000));
  const final = (times: number) =>
    tus(`${gateway.url}/uploads`, 'POST', {
      'upload-concat': `final;${Array(times).fill(part).join(' ')}`,
      ...one,
    });
  expect((await final(2)).code).toBe('client_room_exceeded');
  expect(gateway.store.stats()).toMatchObject({ unfinishedUploads: 1, unfinishedBytes: 900_000 });
  // Begun, and full while its bytes are copied.
  const other = await begin(gateway, { ...DEFERRED, ...one });
  const { unfinished } = gateway.store;
  const append = unfinished!.append.bind(unfinished);
  const hook = vi.spyOn(unfinished!, 'append').mockImplementationOnce(async (...args) => {
    await tus(other, 'PATCH', patchHeaders(0, one), Buffer.alloc(800_000));
    return append(...args);
  });
  onTestFinished(() => hook.mockRestore());
  const full = await final(1);
  expect([full.status, full.code]).toEqual([429, 'client_room_exceeded']);
  expect(gateway.store.stats()).toMatchObject({ unfinishedUploads: 2, unfinishedBytes: 1_700_000 });
  await tus(other, 'DELETE', one);
  expect((await final(1)).status).toBe(201);
  expect(gateway.store.stats()).toMatchObject({ unfinishedUploads: 0, unfinishedBytes: 0 });
});

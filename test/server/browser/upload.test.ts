import { randomBytes } from 'node:crypto';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { droppedFiles, UploadError, upload, uploadAll } from '@stevedore/browser';
import type { GatewayInput } from '@stevedore/gateway';
import { presignedUpload } from '@stevedore/middleware/core';
import { expect, test } from 'vitest';
import { writeKeyFile } from '../../../gateway/dist/access/api-keys.js';
import { cuttingProxy } from '../../support/cutting-proxy.js';
import { newKey } from '../../support/gateway/guarded.js';
import { openPage } from '../../support/page.js';
import { quiet } from '../../support/quiet.js';
import { soon } from '../../support/soon.js';
import { plainGateway } from '../../support/store.js';
import { strippingProxy } from '../../support/stripping-proxy.js';
import { temporaryFolder } from '../../support/temporary.js';

async function started(input: GatewayInput = {}) {
  const directory = temporaryFolder();
  const gateway = await plainGateway({ ...input, directory });
  const unfinished = () => readdirSync(join(directory, 'unfinished'));
  return Object.assign(gateway, { directory, unfinished });
}

async function bytesAt(url: string, path: string): Promise<Buffer> {
  const response = await fetch(url + path);
  expect(response.status).toBe(200);
  return Buffer.from(await response.arrayBuffer());
}

async function failureOf(promise: Promise<unknown>): Promise<UploadError> {
  const error = await promise.catch((reason: unknown) => reason);
  expect(error).toBeInstanceOf(UploadError);
  return error as UploadError;
}

test('a file arrives with its name and type, and its progress is reported', async () => {
  const { url, store, unfinished } = await started();
  const page = openPage(url);
  for (const size of [3_000_000, 20_000, 0]) {
    const bytes = randomBytes(size);
    const seen: number[] = [];
    const sending = upload(page.file(bytes, 'grüße.txt', 'text/plain'), {
      endpoint: '/uploads',
      group: 'letters',
      onProgress: (sent, total) => {
        expect(total).toBe(size);
        seen.push(sent);
      },
    });
    const stored = await sending.done;
    expect(stored.url).toBe(`/files/${stored.key}`);
    expect((await bytesAt(url, stored.url)).equals(bytes)).toBe(true);
    const { name, type, group } = await store.stat(stored.key);
    expect([name, type, group]).toEqual(['grüße.txt', 'text/plain', 'letters']);
    expect([seen.at(-1), sending.sentBytes]).toEqual([size, size]);
    expect(seen.toSorted((a, b) => a - b)).toEqual(seen);
  }
  expect([unfinished(), page.storage.length]).toEqual([[], 0]);
});

test.each<[string, GatewayInput]>([
  ['does not know of it', {}],
  ['has another public address', { publicUrl: 'https://cdn.example/other' }],
])('below a path, a file arrives where the gateway %s', async (_, input) => {
  const directory = temporaryFolder();
  const policies = join(directory, 'policies.json');
  writeFileSync(policies, JSON.stringify({ avatars: {} }));
  const { url, store } = await started({ ...input, policies });
  const page = openPage(await strippingProxy(url, '/storage', {}));
  const sent: Promise<{ readonly key: string }>[] = [];
  for (const endpoint of ['/storage/uploads', '/storage/uploads/avatars']) {
    const options = { endpoint, name: endpoint, maxRequestBytes: 10_000 };
    sent.push(upload(page.file(randomBytes(30_000), 'a.bin'), options).done);
  }
  for (const { key } of await Promise.all(sent)) expect((await store.stat(key)).size).toBe(30_000);
});

test('over cut connections nothing that was acknowledged is sent again', async () => {
  const { url, store } = await started();
  const proxy = await cuttingProxy(Number(new URL(url).port));
  let cuts = 8;
  proxy.cutAfterBytes = () => (cuts-- > 0 ? 400_000 : undefined);
  const page = openPage(proxy.url);
  const bytes = randomBytes(3_000_000);
  const { key } = await upload(page.file(bytes, 'a.bin'), { endpoint: '/uploads' }).done;
  expect((await store.get(key)).size).toBe(bytes.length);
  expect((await bytesAt(url, `/files/${key}`)).equals(bytes)).toBe(true);
  // What was under way at a cut may be sent twice, and every request has its head.
  expect(proxy.passedBytes).toBeLessThan(bytes.length + 8 * 400_000);
  expect(cuts).toBeLessThan(1);
});

test('a paused upload sends nothing, and goes on from where it was', async () => {
  const { url } = await started();
  const proxy = await cuttingProxy(Number(new URL(url).port));
  const page = openPage(proxy.url);
  const bytes = randomBytes(2_000_000);
  const options = { endpoint: '/uploads', maxRequestBytes: 500_000 };
  const sending = upload(page.file(bytes, 'a.bin'), {
    ...options,
    onProgress: (sent) => {
      if (sent >= 1_000_000 && !isDone) sending.pause();
    },
  });
  let isDone = false;
  await soon(() => expect(sending.isPaused).toBe(true));
  await soon(async () => {
    const before = proxy.passedBytes;
    await quiet();
    expect(proxy.passedBytes).toBe(before);
  });
  isDone = true;
  sending.resume();
  const { url: path } = await sending.done;
  expect((await bytesAt(url, path)).equals(bytes)).toBe(true);
  expect(proxy.passedBytes).toBeLessThan(bytes.length + 600_000);
});

test('after a reload the same file goes on; another one begins anew', async () => {
  const { url, unfinished } = await started();
  const proxy = await cuttingProxy(Number(new URL(url).port));
  const bytes = randomBytes(2_000_000);
  const first = openPage(proxy.url);
  const options = { endpoint: '/uploads', maxRequestBytes: 500_000 };
  const left = upload(first.file(bytes, 'a.bin'), {
    ...options,
    onProgress: (sent) => {
      if (sent >= 1_000_000) left.pause();
    },
  });
  await soon(() => expect(left.isPaused).toBe(true));
  await soon(() => expect(unfinished()).not.toEqual([]));
  const kept = first.storage;
  expect(kept.length).toBe(1);
  const second = openPage(proxy.url, kept);
  const other = await upload(second.file(randomBytes(5), 'a.bin'), options).done;
  const before = proxy.passedBytes;
  const { key } = await upload(second.file(bytes, 'a.bin'), options).done;
  expect(other.key).not.toBe(key);
  expect((await bytesAt(url, `/files/${key}`)).equals(bytes)).toBe(true);
  expect(proxy.passedBytes - before).toBeLessThan(1_100_000);
  expect([kept.length, unfinished()]).toEqual([0, []]);
});

test('a refusal says why, an abort removes what was sent, and an absent server is given up', async () => {
  const directory = temporaryFolder();
  const policies = join(directory, 'policies.json');
  writeFileSync(policies, JSON.stringify({ small: { maxFileSize: '1KiB', types: ['image/*'] } }));
  const { url, unfinished } = await started({ policies });
  const page = openPage(url);
  const small = { endpoint: '/uploads/small', maxRequestBytes: 100 };
  const long = upload(page.file(randomBytes(2000), 'a.png', 'image/png'), small);
  expect(await failureOf(long.done)).toMatchObject({
    ...{ code: 'refused', status: 413, problem: 'too_large' },
  });
  const wrong = upload(page.file(randomBytes(10), 'a.txt', 'text/plain'), small);
  expect(await failureOf(wrong.done)).toMatchObject({ status: 415, problem: 'type_not_allowed' });
  const ended = upload(page.file(randomBytes(2_000_000), 'b.bin'), {
    ...{ endpoint: '/uploads', maxRequestBytes: 100_000 },
    onProgress: (sent) => {
      if (sent >= 300_000) ended.abort();
    },
  });
  expect(await failureOf(ended.done)).toMatchObject({ code: 'aborted' });
  await soon(() => expect(unfinished()).toEqual([]));
  const nowhere = { endpoint: 'http://127.0.0.1:1/uploads', maxRetries: 1 };
  const lost = upload(page.file(randomBytes(10), 'a.bin'), nowhere);
  expect(await failureOf(lost.done)).toMatchObject({ code: 'unreachable', status: 0 });
});

test('a page uploads by a presigned URL that its own server signs', async () => {
  const directory = temporaryFolder();
  const apiKeys = join(directory, 'keys.json');
  await writeKeyFile(apiKeys, [newKey({ scopes: ['write'] }).key]);
  const urlSecret = ['s'.repeat(32)];
  const { url } = await started({ apiKeys, urlSecret });
  const page = openPage(url);
  const bytes = randomBytes(10_000);
  const refused = upload(page.file(bytes, 'a.bin'), { endpoint: '/uploads' });
  expect(await failureOf(refused.done)).toMatchObject({ status: 401, problem: 'unauthorized' });
  const endpoint = async () => {
    const signed = presignedUpload(urlSecret[0]!, new Date(Date.now() + 60_000));
    return signed.replace('/files', '/uploads');
  };
  const { key } = await upload(page.file(bytes, 'a.bin'), { endpoint }).done;
  expect(key).toMatch(/^[\w-]{22}$/);
});

test('many files go a few at a time, and those that fail do not stop the others', async () => {
  const directory = temporaryFolder();
  const policies = join(directory, 'policies.json');
  writeFileSync(policies, JSON.stringify({ album: { maxFileSize: '10KiB' } }));
  const { url, store } = await started({ policies });
  const page = openPage(url);
  const files = Array.from({ length: 20 }, (_, at) => ({
    file: page.file(randomBytes(at === 7 ? 20_000 : 1000 + at), `${at}.bin`),
    path: `holiday/day ${at % 3}/${at}.bin`,
  }));
  const stored: string[] = [];
  const failed: string[] = [];
  let mostBytes = 0;
  const all = uploadAll(files, {
    ...{ endpoint: '/uploads/album', group: 'album-7' },
    onStored: (file, { key }) => stored.push(`${file.name} ${key}`),
    onFailed: (file, { problem }) => failed.push(`${file.name} ${problem}`),
    onProgress: ({ sentBytes }) => {
      mostBytes = Math.max(mostBytes, sentBytes);
    },
  });
  all.pause();
  await quiet();
  expect(stored.length).toBeLessThan(20);
  all.resume();
  const totalBytes = files.reduce((sum, { file }) => sum + file.size, 0);
  expect(await all.done).toEqual({
    ...{ sentBytes: totalBytes, totalBytes, files: 20, storedFiles: 19, failedFiles: 1 },
  });
  expect(failed).toEqual(['7.bin too_large']);
  expect(mostBytes).toBe(totalBytes);
  const keys = new Map(stored.map((line) => line.split(' ') as [string, string]));
  const { name, group } = await store.stat(keys.get('4.bin')!);
  expect([name, group]).toEqual(['holiday/day 1/4.bin', 'album-7']);
});

test('dropped folders are read to their ends', async () => {
  const file = (name: string) => ({
    ...{ isFile: true, name },
    file: (resolve: (file: File) => void) => resolve({ name } as File),
  });
  const folder = (name: string, entries: unknown[]) => ({
    ...{ isFile: false, name },
    createReader: () => {
      // As Chromium has it: at most 100 at a time.
      let at = 0;
      return {
        readEntries: (resolve: (entries: unknown[]) => void) => {
          resolve(entries.slice(at, at + 100));
          at += 100;
        },
      };
    },
  });
  const many = Array.from({ length: 250 }, (_, at) => file(`${at}.jpg`));
  const dropped = [file('a.txt'), folder('holiday', [folder('day 1', many), folder('none', [])])];
  const items = dropped.map((entry) => ({ webkitGetAsEntry: () => entry }));
  const files = await droppedFiles({ items } as never);
  expect(files).toHaveLength(251);
  expect(files[0]).toMatchObject({ path: 'a.txt' });
  expect(files[250]).toMatchObject({ path: 'holiday/day 1/249.jpg', file: { name: '249.jpg' } });
});

test('all of it has less than 6 KB, compressed', () => {
  const folder = fileURLToPath(new URL('.', import.meta.resolve('@stevedore/browser')));
  const modules = readdirSync(folder).filter((name) => name.endsWith('.js'));
  const texts = modules.map((name) => readFileSync(join(folder, name), 'utf8'));
  expect(modules.length).toBeGreaterThan(3);
  expect(gzipSync(texts.join('\n')).length).toBeLessThan(6 * 1024);
});

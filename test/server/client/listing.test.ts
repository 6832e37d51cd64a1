import type { FileInfo, FilePage, ListOptions, Store } from '@stevedore/client';
import { connect } from '@stevedore/client/connect';
import { expect, onTestFinished, test } from 'vitest';
import { HOUR_MS, movableTime } from '../../support/fake-clock.js';
import { keyFile, newKey } from '../../support/gateway/guarded.js';
import { serving } from '../../support/serving.js';
import { until } from '../../support/staging.js';
import { openGateway, openStore } from '../../support/store.js';

/** A file in a gateway's JSON. */
const LISTED = {
  ...{ key: 'AAAAAAAAAAAAAAAAAAAAAA', type: 'text/plain', size: 1, crc32: '00000000' },
  ...{ state: 'staged', stagedAt: '2026-01-02T03:04:05.678Z' },
};

/** Names of all pages. */
async function namesOf(store: Store, options: ListOptions = {}): Promise<string[]> {
  const names: string[] = [];
  let page: FilePage = { files: [] };
  do {
    page = await store.list({ ...options, ...(page.next ? { after: page.next } : {}) });
    names.push(...page.files.map(({ name }) => name));
  } while (page.next !== undefined);
  return names;
}

/** Resolves in another millisecond. */
async function later(): Promise<void> {
  const now = Date.now();
  await until(() => Date.now() > now);
}

async function fill(store: Store): Promise<Date> {
  const put = async (name: string, type: string, group?: string, size = 10) => {
    await store.put(Buffer.alloc(size), { name, type, ...(group ? { group } : {}) });
    // The order of files of one millisecond is not defined.
    await later();
  };
  await put('a/1.jpg', 'image/jpeg', 'album');
  await put('a/2.png', 'image/png', 'album', 2000);
  await put('b/1.txt', 'text/plain; charset=utf-8', 'texts');
  const between = new Date();
  await later();
  await put('b/2.txt', 'text/plain');
  await put('a/3.jpg', 'image/jpeg', 'album', 500);
  return between;
}

async function check(store: Store): Promise<void> {
  const between = await fill(store);
  const all = ['a/1.jpg', 'a/2.png', 'b/1.txt', 'b/2.txt', 'a/3.jpg'];
  expect(await namesOf(store)).toEqual(all);
  expect(await namesOf(store, { limit: 2 })).toEqual(all);
  expect(await namesOf(store, { group: 'album' })).toEqual(['a/1.jpg', 'a/2.png', 'a/3.jpg']);
  expect(await namesOf(store, { group: 'album', limit: 1 })).toHaveLength(3);
  expect(await namesOf(store, { group: 'none' })).toEqual([]);
  expect(await namesOf(store, { namePrefix: 'b/' })).toEqual(['b/1.txt', 'b/2.txt']);
  expect(await namesOf(store, { type: 'image/*' })).toEqual(['a/1.jpg', 'a/2.png', 'a/3.jpg']);
  expect(await namesOf(store, { type: 'text/plain' })).toEqual(['b/1.txt', 'b/2.txt']);
  expect(await namesOf(store, { since: between })).toEqual(['b/2.txt', 'a/3.jpg']);
  expect(await namesOf(store, { until: between })).toEqual(all.slice(0, 3));
  expect(await namesOf(store, { nameContains: '2.T' })).toEqual(['b/2.txt']);
  const accents = await openStore();
  for (const name of ['été.txt', 'e\u0301te\u0301.png', 'ete']) await accents.put('x', { name });
  for (const part of ['ÉTÉ', 'E\u0301T', 'te\u0301']) {
    expect(await namesOf(accents, { nameContains: part })).toEqual([
      'été.txt',
      'e\u0301te\u0301.png',
    ]);
  }
  expect(await namesOf(accents, { namePrefix: 'éte\u0301.' })).toEqual([
    'été.txt',
    'e\u0301te\u0301.png',
  ]);
  expect(await namesOf(accents, { namePrefix: 'e' })).toEqual(['ete']);
  expect(await namesOf(store, { minSize: 500, maxSize: 1999 })).toEqual(['a/3.jpg']);
  const backwards = all.toReversed();
  expect(await namesOf(store, { order: 'newest' })).toEqual(backwards);
  expect(await namesOf(store, { order: 'newest', limit: 2 })).toEqual(backwards);
  expect(await namesOf(store, { order: 'newest', group: 'album', limit: 1 })).toEqual([
    'a/3.jpg',
    'a/2.png',
    'a/1.jpg',
  ]);
  expect(await namesOf(store, { order: 'newest', since: between })).toEqual(['a/3.jpg', 'b/2.txt']);
  expect(await namesOf(store, { order: 'newest', until: between, limit: 1 })).toEqual(
    backwards.slice(2),
  );
  const each: string[] = [];
  for await (const { name } of store.list({ order: 'newest', limit: 2 })) each.push(name);
  expect(each).toEqual(backwards);
  const { files } = await store.list({ limit: 1 });
  expect(files[0]).toEqual(await store.stat(files[0]!.key));
  for (const wrong of [{ limit: 0 }, { limit: 10_001 }, { limit: 1.5 }, { after: 'x' }]) {
    await expect(store.list(wrong), JSON.stringify(wrong)).rejects.toMatchObject({
      code: 'invalid_option',
    });
    const iterating = async () => {
      for await (const { name } of store.list(wrong)) each.push(name);
    };
    await expect(iterating()).rejects.toMatchObject({ code: 'invalid_option' });
  }
}

test('files are listed by group, name, type, time and size, page by page', async () => {
  await check(await openStore());
});

test('merged files are listed, deleted and expired ones are not', async () => {
  const later = movableTime();
  const store = await openStore();
  const { key } = await store.put('deleted', { name: 'deleted' });
  const expiresAt = new Date(Date.now() + HOUR_MS);
  await store.put('expired', { name: 'expired', expiresAt });
  await store.put('kept', { name: 'kept' });
  await store.flush();
  await store.delete(key);
  later(HOUR_MS);
  expect(await namesOf(store)).toEqual(['kept']);
});

test('through a gateway, a key with the scope list sees what the store has', async () => {
  const lists = newKey({ scopes: ['read', 'write', 'list'] });
  const gateway = await openGateway({ apiKeys: await keyFile(lists) });
  const connected = connect({ url: gateway.url, apiKey: lists.text });
  onTestFinished(() => connected.close());
  await check(connected);
  const headers = { 'x-api-key': lists.text };
  const status = async (query: string) =>
    (await fetch(`${gateway.url}/files?${query}`, { headers })).status;
  for (const time of [
    '11/12/2026',
    '1',
    '2026-02-31',
    '2026-02-31T00:00:00Z',
    '2026-03-01T12:00',
  ]) {
    expect(await status(`since=${encodeURIComponent(time)}`), time).toBe(400);
  }
  expect(await status('since=2026-03-01&until=2026-03-01T00:00:00%2B02:00')).toBe(200);
});

test('a listing whose pages lack the files of a server gives what it has, and says so at its end', async () => {
  const pages: FilePage[] = [
    { files: [{ name: 'one' } as FileInfo], next: 'on', away: [7] },
    { files: [{ name: 'two' } as FileInfo], away: [7, 3] },
  ];
  const url = await serving(({ url: path = '' }, response) => {
    const { files, ...rest } = pages[path.includes('after=on') ? 1 : 0]!;
    const listed = files.map(({ name }) => ({ ...LISTED, name }));
    response.end(JSON.stringify({ ...rest, files: listed }));
  });
  const store = connect({ url });
  onTestFinished(() => store.close());
  const names: string[] = [];
  const iterating = async () => {
    for await (const { name } of store.list()) names.push(name);
  };
  await expect(iterating()).rejects.toMatchObject({
    code: 'storage_unavailable',
    message: expect.stringContaining('origins 3, 7'),
  });
  expect(names).toEqual(['one', 'two']);
});

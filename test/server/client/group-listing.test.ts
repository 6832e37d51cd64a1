import type { GroupOptions, Store } from '@stevedore/client';
import { connect } from '@stevedore/client/connect';
import { describe, expect, onTestFinished, test } from 'vitest';
import { SCOPES } from '../../../gateway/dist/access/api-keys.js';
import { listGroups } from '../../../packages/client/dist/list/groups.js';
import { HOUR_MS, movableTime } from '../../support/fake-clock.js';
import { keyFile, newKey } from '../../support/gateway/guarded.js';
import { openGateway, openStore } from '../../support/store.js';

/** `groups`: those that have a file, page by page. */

const openOf = async (): Promise<Store> => openStore({ durability: 'os' });

async function connected(): Promise<Store> {
  const lists = newKey({ scopes: SCOPES });
  const apiKeys = await keyFile(lists);
  const gateway = await openGateway({ durability: 'os', apiKeys });
  const store = connect({ url: gateway.url, apiKey: lists.text });
  onTestFinished(() => store.close());
  return store;
}

/** Of all pages. */
async function allOf(store: Store, options: GroupOptions = {}): Promise<string[]> {
  const names: string[] = [];
  for (let after: string | undefined; ; ) {
    const page = await store.groups({ ...options, ...(after === undefined ? {} : { after }) });
    expect(page.groups.length).toBeLessThanOrEqual(options.limit ?? 1_000);
    names.push(...page.groups);
    after = page.next;
    if (after === undefined) return names;
  }
}

/** In the order of their bytes in UTF-8, which is not that of UTF-16. */
const NAMES = ['Album', 'album 1', 'album/2', 'line\nbreak', 'ä', '～', '😀'];

describe.each([
  ['open()', openOf],
  ['connect()', connected],
])('%s', (_, openOne) => {
  test('lists every group once, in order of name, page by page', async () => {
    const store = await openOne();
    expect(await store.groups()).toEqual({ groups: [] });
    await store.put('in no group');
    for (const group of NAMES.toReversed()) {
      for (const body of ['one', 'two']) await store.put(body, { group });
    }
    await store.flush();
    await store.put('staged', { group: 'ä' });
    for (const limit of [1, 2, NAMES.length, 1_000]) {
      expect(await allOf(store, { limit })).toEqual(NAMES);
    }
    // The end is known with the last group.
    expect(await store.groups({ limit: NAMES.length })).toEqual({ groups: NAMES });
    expect(await allOf(store, { after: 'album 1' })).toEqual(NAMES.slice(2));
    expect(await allOf(store, { nameContains: 'ALBUM' })).toEqual(NAMES.slice(0, 3));
    expect(await allOf(store, { nameContains: 'album', limit: 1 })).toEqual(NAMES.slice(0, 3));
    const each: string[] = [];
    for await (const group of store.groups({ limit: 2 })) each.push(group);
    expect(each).toEqual(NAMES);
    for (const limit of [0, 1.5, 10_001]) {
      await expect(store.groups({ limit })).rejects.toMatchObject({ code: 'invalid_option' });
    }
  });

  test('a group is listed as long as a file of it lives', async () => {
    const later = movableTime();
    const store = await openOne();
    const { key } = await store.put('deleted', { group: 'deleted' });
    const merged = await store.put('merged', { group: 'merged' });
    await store.put('stays', { group: 'merged' });
    await store.flush();
    expect(await allOf(store)).toEqual(['deleted', 'merged']);
    await store.delete(key);
    await store.delete(merged.key);
    expect(await allOf(store)).toEqual(['merged']);
    await store.put('stays', { group: 'partly expired' });
    const expiresAt = new Date(Date.now() + HOUR_MS);
    for (const group of ['expired', 'partly expired']) {
      await store.put('expires', { group, expiresAt });
    }
    expect(await allOf(store)).toEqual(['expired', 'merged', 'partly expired']);
    later(HOUR_MS);
    expect(await allOf(store)).toEqual(['merged', 'partly expired']);
  });
});

interface Row {
  readonly key: Buffer;
  readonly expiresAt?: number;
}

const keyOf = (number: number) =>
  Buffer.concat([Buffer.alloc(12), Buffer.from([number >> 8, number])]);

/** So many groups of these files each, and what was asked about them. */
function groupsInMemory(count: number, rows: readonly Row[] = [{ key: keyOf(0) }]) {
  const nameOf = (number: number) => `group ${String(number).padStart(5, '0')}`;
  const asked = { groups: 0, rows: 0 };
  const fileMap = {
    groupBehind: (after: string) => {
      asked.groups += 1;
      const next = after === '' ? 0 : Number(after.slice(6)) + 1;
      return next < count ? nameOf(next) : undefined;
    },
    pageOfGroupBefore: (_group: string, before: Buffer, most: number) => {
      asked.rows += most;
      return rows.filter(({ key }) => Buffer.compare(key, before) < 0).slice(0, most);
    },
  };
  const sources = {
    all: [{ fileMap, rebuild: { isComplete: true } }],
    now: () => 2,
    isRemoved: (key: Buffer) => key.equals(keyOf(1_000)),
  } as unknown as Parameters<typeof listGroups>[1];
  return { nameOf, asked, list: (options: GroupOptions) => listGroups(options, sources) };
}

test('a group costs one step of the index, and a look at one file', async () => {
  const { nameOf, asked, list } = groupsInMemory(5_000);
  const page = await list({ limit: 1_000, after: nameOf(99) });
  expect(page).toMatchObject({ groups: { length: 1_000 }, next: nameOf(1_099) });
  expect(asked).toEqual({ groups: 1_001, rows: 1_000 });
});

test('a group lives by its oldest file, if all others have expired or another server deleted them', async () => {
  const gone = Array.from({ length: 1_000 }, (_, index) => ({
    key: keyOf(1_000 - index),
    ...(index === 0 ? {} : { expiresAt: 2 }),
  }));
  expect(await groupsInMemory(2, gone).list({})).toEqual({ groups: [] });
  const { nameOf, list } = groupsInMemory(2, [...gone, { key: keyOf(0), expiresAt: 3 }]);
  expect(await list({})).toEqual({ groups: [nameOf(0), nameOf(1)] });
});

test('a page looks at a bounded number of groups, and the next one goes on', async () => {
  const { nameOf, asked, list } = groupsInMemory(25_000);
  const nameContains = '24999';
  const page = await list({ nameContains });
  expect(page).toEqual({ groups: [], next: nameOf(19_999) });
  // Names that do not match cost no look at their files.
  expect(asked).toEqual({ groups: 20_000, rows: 0 });
  expect(await list({ nameContains, after: page.next! })).toEqual({ groups: [nameOf(24_999)] });
});

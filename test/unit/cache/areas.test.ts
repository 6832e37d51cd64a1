import { FileCache, type FileCacheOptions } from '@stevedore/cache';
import { describe, expect, test } from 'vitest';
import { idsOf } from '../../support/cache/files.js';

/** The lists of a cache, to the byte: what is in which, what leaves, and what is noted of it. */

const MAX_BYTES = 80_000;
/** Of files requested once: an eighth. */
const RECENT_BYTES = 10_000;
const COST = 1_000;
/** What a file uses beside its bytes, its id included. */
const BESIDE = 240;

/** The content of a file that uses `cost` bytes of the cache. */
function content(id: string, cost = COST): Buffer {
  return Buffer.allocUnsafeSlow(cost - id.length - BESIDE);
}

/** The filter tells whether what has gone is forgotten. */
function cacheOf(options: Partial<FileCacheOptions> = {}): FileCache {
  return new FileCache({ maxBytes: MAX_BYTES, filter: true, ...options });
}

async function request(cache: FileCache, ids: readonly string[], cost = COST): Promise<void> {
  for (const id of ids) await cache.get(id, async () => content(id, cost));
}

/** Reads the files ahead, beside one that is requested. */
async function readAhead(cache: FileCache, ids: readonly string[], cost = COST): Promise<void> {
  await cache.get('asked', async (flight) => {
    for (const id of flight.claim(ids)) flight.deliver(id, content(id, cost), 'trunk');
    return content('asked');
  });
}

/** 70 files in the main list, 10 in the recent one. */
async function full(): Promise<{ readonly cache: FileCache; readonly ids: readonly string[] }> {
  const cache = cacheOf();
  const ids = idsOf('file', 80).map((id) => id.padEnd(8, '.'));
  await request(cache, ids);
  return { cache, ids };
}

function isKnown(cache: FileCache, id: string): boolean {
  const { filterNo } = cache.stats();
  cache.find(id);
  return cache.stats().filterNo === filterNo;
}

describe('files requested once', () => {
  test('fill the whole cache, to the byte, while there is room', async () => {
    const { cache, ids } = await full();
    expect(ids.every((id) => cache.peek(id)?.length === COST - 8 - BESIDE)).toBe(true);
    expect(cache.stats()).toMatchObject({ files: 80, bytes: MAX_BYTES, evicted: 0, rejected: 0 });
  });

  test('leave from the tail without a place, once there is none', async () => {
    const { cache, ids } = await full();
    await request(cache, ['another.']);
    const oldest = ids[70]!;
    expect(cache.has('another.')).toBe(true);
    expect(cache.stats()).toMatchObject({ rejected: 1, evicted: 0, goneBytes: COST - 8 - BESIDE });
    expect(isKnown(cache, oldest)).toBe(false);
    expect(cache.stats().readAhead).toMatchObject({ usedBytes: 0, unusedBytes: 0 });
  });

  test('need a place in the main list at once if their own is too small for them', async () => {
    const { cache } = await full();
    await request(cache, ['as-large'], RECENT_BYTES);
    expect(cache.has('as-large')).toBe(true);
    await request(cache, ['larger'], RECENT_BYTES + 1);
    expect(isKnown(cache, 'larger')).toBe(false);
    const empty = cacheOf();
    await request(empty, ['larger'], RECENT_BYTES + 1);
    expect(empty.has('larger')).toBe(true);
  });
});

describe('what was used last leaves last', () => {
  test('of the recent list', async () => {
    const { cache, ids } = await full();
    cache.find(ids[70]!);
    await request(cache, ['another.']);
    expect([cache.has(ids[70]!), cache.has(ids[71]!)]).toEqual([true, false]);
    expect(cache.stats()).toMatchObject({ rejected: 1, evicted: 0 });
  });

  test('of the main list', async () => {
    const { cache, ids } = await full();
    cache.find(ids[0]!);
    await request(cache, ['twice...', 'twice...', ...idsOf('push', 10)]);
    expect(cache.has('twice...')).toBe(true);
    expect([cache.has(ids[0]!), cache.has(ids[1]!)]).toEqual([true, false]);
  });
});

describe('a file at the tail of the recent list', () => {
  /** Requests new files until this one is at the end of its list. */
  async function push(cache: FileCache): Promise<void> {
    await request(cache, idsOf(`push-${cache.stats().misses}`, 10), COST);
  }

  test('displaces one that was requested less often, and no more than its bytes need', async () => {
    const { cache, ids } = await full();
    await request(cache, ['twice...', 'twice...']);
    const before = cache.stats().evicted;
    await push(cache);
    expect(cache.has('twice...')).toBe(true);
    expect(cache.stats().evicted - before).toBe(1);
    expect([cache.has(ids[0]!), cache.has(ids[1]!)]).toEqual([false, true]);
    expect(isKnown(cache, ids[0]!)).toBe(false);
    expect(cache.stats().readAhead).toMatchObject({ usedBytes: 0, unusedBytes: 0 });
  });

  test('displaces none that was requested as often', async () => {
    const { cache, ids } = await full();
    // They become the last to go, and the others, requested once, stay at the tail.
    for (const id of ids.slice(0, 70)) cache.find(id);
    await request(cache, ['twice...', 'twice...']);
    await push(cache);
    expect(isKnown(cache, 'twice...')).toBe(false);
    expect(ids.slice(0, 70).every((id) => cache.has(id))).toBe(true);
  });

  test('displaces none if those that make room for it were requested as often together', async () => {
    const { cache, ids } = await full();
    await request(cache, ['twice...', 'twice...'], 2 * COST);
    await push(cache);
    expect(isKnown(cache, 'twice...')).toBe(false);
    expect(ids.slice(0, 70).every((id) => cache.has(id))).toBe(true);
  });

  test('displaces none that were requested long ago, if it was requested once', async () => {
    const { cache, ids } = await full();
    // After so many requests, all counts are halved.
    for (const id of idsOf('other', 11_000)) cache.find(id);
    await push(cache);
    await push(cache);
    expect(cache.stats().rejected).toBe(20);
    expect(ids.slice(0, 70).every((id) => cache.has(id))).toBe(true);
  });

  test('counts as requested once where the estimate alone says twice', async () => {
    const { cache } = await full();
    for (const times of [1, 2, 3]) {
      await request(cache, ['returns.']);
      await push(cache);
      // The estimate may be wrong by one in a scan, seldom by two.
      expect([times, cache.has('returns.')]).toEqual([times, times === 3]);
    }
  });
});

describe('files read ahead', () => {
  test('are in a list of their own, which displaces nothing else', async () => {
    const cache = cacheOf({ aheadShare: 0.25 });
    const ids = idsOf('ahead', 21).map((id) => id.padEnd(8, '.'));
    await readAhead(cache, ids);
    const { files, bytes, evicted, rejected, goneBytes } = cache.stats();
    expect([files, bytes]).toEqual([21, 21 * COST]);
    const one = COST - 8 - BESIDE;
    expect([evicted, rejected, goneBytes]).toEqual([1, 0, one]);
    expect(isKnown(cache, ids[0]!)).toBe(false);
    expect(cache.stats().readAhead).toMatchObject({
      ...{ readBytes: 21 * one, usedBytes: 0, unusedBytes: one },
    });
  });

  test('move to the others when they are requested, which counts as used once', async () => {
    const cache = cacheOf({ aheadShare: 0.25 });
    await readAhead(cache, ['ahead']);
    const { length } = cache.find('ahead')!;
    expect(cache.find('ahead')).toHaveLength(length);
    await readAhead(cache, idsOf('next', 20));
    expect(cache.has('ahead')).toBe(true);
    expect(cache.stats()).toMatchObject({ hits: 2 + 1, rejected: 0 });
    expect(cache.stats().readAhead).toMatchObject({ usedBytes: length, unusedBytes: 0 });
  });

  test('are kept up to the size of their list', async () => {
    const cache = cacheOf({ aheadShare: 0.1 });
    await readAhead(cache, ['as-large'], MAX_BYTES / 10);
    expect(cache.has('as-large')).toBe(true);
    const other = cacheOf({ aheadShare: 0.1 });
    await readAhead(other, ['larger'], MAX_BYTES / 10 + 1);
    expect(isKnown(other, 'larger')).toBe(false);
  });

  test('count as unused if they are deleted before, and not if others are', async () => {
    const cache = cacheOf({ aheadShare: 0.25 });
    await readAhead(cache, ['ahead']);
    cache.delete('asked');
    expect(cache.stats().readAhead.unusedBytes).toBe(0);
    cache.delete('ahead');
    expect(cache.stats().readAhead.unusedBytes).toBe(content('ahead').length);
    expect(cache.stats()).toMatchObject({ files: 0, bytes: 0, evicted: 0, goneBytes: 0 });
    expect([isKnown(cache, 'asked'), isKnown(cache, 'ahead')]).toEqual([false, false]);
  });

  test('may have all of the cache, and leave it when they are requested', async () => {
    const cache = cacheOf({ aheadShare: 1 });
    await readAhead(cache, idsOf('ahead', 60));
    for (let again = 0; again < 5; again += 1) await readAhead(cache, []);
    expect(cache.stats().files).toBe(60);
    // Requested more than once, too.
    expect(isKnown(cache, 'asked')).toBe(false);
    expect(cache.find('ahead-0')).toBeDefined();
    expect(isKnown(cache, 'ahead-0')).toBe(false);
    const { rejected, readAhead: noted } = cache.stats();
    expect([rejected, noted.unusedBytes]).toEqual([1, 0]);
  });
});

test('a file as large as the main list may be all that is in it', async () => {
  const cache = cacheOf({ aheadShare: 0.8 });
  const mainBytes = MAX_BYTES - RECENT_BYTES - MAX_BYTES * 0.8;
  await request(cache, ['as-large'], mainBytes);
  await request(cache, ['next'], mainBytes);
  expect([cache.has('as-large'), cache.has('next')]).toEqual([true, true]);
});

import { FileCache } from '@stevedore/cache';
import { describe, expect, it } from 'vitest';
import { fill, idsOf, KIB, kept } from '../../support/cache/files.js';

describe('admission', () => {
  const CACHE_FILES = 100;
  const FILE = KIB;
  const maxBytes = CACHE_FILES * (FILE + 300);
  const hot = idsOf('hot', 50);

  async function warm(): Promise<FileCache> {
    const cache = new FileCache({ maxBytes });
    for (let round = 0; round < 4; round += 1) await fill(cache, hot, FILE);
    expect(kept(cache, hot)).toBe(hot.length);
    return cache;
  }

  it('keeps the hot set through a scan of everything', async () => {
    const cache = await warm();
    await fill(cache, idsOf('scan', CACHE_FILES * 50), FILE);
    expect(kept(cache, hot)).toBeGreaterThanOrEqual(hot.length * 0.9);
    expect(cache.stats().rejected).toBeGreaterThan(CACHE_FILES * 45);
  });

  it.each([200, KIB, 8 * KIB, 64 * KIB])(
    'keeps it through a scan of 20 times the cache, with files of %i bytes',
    async (bytes) => {
      // Thousands of small files, and hundreds of large ones, are enough.
      const cacheBytes = (bytes < 8 * KIB ? 4 : 16) * 1024 * KIB;
      const files = Math.floor(cacheBytes / (bytes + 260));
      const content = Buffer.allocUnsafeSlow(bytes);
      const cache = new FileCache({ maxBytes: cacheBytes });
      const often = idsOf('group1/M00/often', Math.floor(files / 2));
      for (let round = 0; round < 4; round += 1) {
        for (const id of often) await cache.get(id, async () => content);
      }
      const before = kept(cache, often);
      expect(before).toBeGreaterThan(often.length * 0.99);
      for (const id of idsOf('group1/M00/scan', files * 20)) {
        await cache.get(id, async () => content);
      }
      expect(kept(cache, often)).toBeGreaterThan(before * 0.95);
    },
  );

  it('keeps it through a scan without end, as long as it is asked for now and then', async () => {
    const cache = await warm();
    const scanned = Buffer.allocUnsafeSlow(FILE);
    let found = 0;
    for (let index = 0; index < 60_000; index += 1) {
      await cache.get(`scan-${index}`, async () => scanned);
      if (index % 20 > 0) continue;
      if (cache.has(hot[(index / 20) % hot.length]!)) found += 1;
      await fill(cache, [hot[(index / 20) % hot.length]!], FILE);
    }
    expect(found).toBeGreaterThan(3000 * 0.8);
  });

  it('lets a new hot set in when the old one is no longer asked for', async () => {
    const cache = await warm();
    const next = idsOf('next', 80);
    for (let round = 0; round < 80; round += 1) await fill(cache, next, FILE);
    expect(kept(cache, next)).toBeGreaterThan(70);
  });

  it('does not let one large file push out many that are asked for as often', async () => {
    const cache = new FileCache({ maxBytes });
    const small = idsOf('small', 100);
    for (let round = 0; round < 3; round += 1) await fill(cache, small, FILE);
    const before = kept(cache, small);
    for (let round = 0; round < 3; round += 1)
      await fill(cache, ['large'], Math.floor(maxBytes / 8) - 50);
    expect(kept(cache, small)).toBe(before);
    expect(cache.has('large')).toBe(false);
  });
});

describe('the filter of a cache', () => {
  it.each([200, KIB])('is seldom wrong, with files of %i bytes too', async (bytes) => {
    const cache = new FileCache({ maxBytes: 4 * 1024 * KIB, filter: true });
    const content = Buffer.allocUnsafeSlow(bytes);
    for (const id of idsOf('kept', 12_000)) await cache.get(id, async () => content);
    const { filterFalse, filterNo } = cache.stats();
    for (const id of idsOf('absent', 10_000)) cache.find(id);
    const after = cache.stats();
    expect(after.filterFalse - filterFalse).toBeLessThan(200);
    expect(after.filterNo - filterNo).toBeGreaterThan(9800);
  });
});

describe('the policy lru', () => {
  const FILE = KIB;
  const maxBytes = 100 * (FILE + 300);

  it('keeps the files requested last, whatever was requested often', async () => {
    const cache = new FileCache({ maxBytes, policy: 'lru' });
    const often = idsOf('often', 50);
    for (let round = 0; round < 4; round += 1) await fill(cache, often, FILE);
    const scanned = idsOf('scan', 200);
    await fill(cache, scanned, FILE);
    expect(kept(cache, often)).toBe(0);
    expect(kept(cache, scanned.slice(-90))).toBe(90);
    // A hit moves a file to the head of the list.
    cache.find(scanned[120]!);
    await fill(cache, idsOf('more', 90), FILE);
    expect([scanned[120]!, scanned[150]!].map((id) => cache.has(id))).toEqual([true, false]);
    const { evicted, rejected } = cache.stats();
    expect([evicted > 100, rejected]).toEqual([true, 0]);
  });

  it('keeps a file at its first request, also one that costs little to load', () => {
    const load = () => Buffer.allocUnsafeSlow(FILE);
    for (const [policy, isKept] of [
      ['lru', true],
      ['admission', false],
    ] as const) {
      const cache = new FileCache({ maxBytes, policy });
      cache.find('file');
      cache.fetchNow('file', load);
      expect(cache.has('file')).toBe(isKept);
    }
  });
});

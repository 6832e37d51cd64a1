import { FileCache, type FileCacheOptions } from '@stevedore/cache';
import { describe, expect, it } from 'vitest';
import { bytesOf, fill, idsOf, KIB, kept } from '../../support/cache/files.js';
import { collectGarbage } from '../../support/garbage.js';
import { Random } from '../../support/random.js';
import { until } from '../../support/staging.js';

function versionOf(bytes: Buffer): number {
  return Number(/#(\d+);/.exec(bytes.toString('latin1'))![1]);
}

describe('a file cache against a model', () => {
  const variants: readonly Omit<FileCacheOptions, 'maxBytes'>[] = [
    {},
    { filter: true },
    { aheadShare: 0.25 },
    { aheadShare: 0.25, filter: true },
  ];
  it.each(variants)('gives the current bytes within its bound, %o', async (variant) => {
    for (let seed = 1; seed <= 6; seed += 1) {
      const random = new Random(seed);
      const maxBytes = 16 * KIB + random.below(128 * KIB);
      const cache = new FileCache({ maxBytes, ...variant });
      const versions = new Map<string, number>();
      const ids = [...idsOf('a/', 60), ...idsOf('b/', 60), ...idsOf('gone', 5)];
      let loads = 0;
      let requests = 0;
      for (let step = 0; step < 2500; step += 1) {
        const id = ids[Math.floor(ids.length * random.next() ** 2)]!;
        const chance = random.next();
        if (chance < 0.06) {
          versions.set(id, (versions.get(id) ?? 0) + 1);
          cache.delete(id);
        } else if (chance < 0.065) {
          for (const each of ids) {
            if (each.startsWith('a/')) versions.set(each, (versions.get(each) ?? 0) + 1);
          }
          cache.deletePrefix('a/');
        } else {
          const version = versions.get(id) ?? 0;
          const had = cache.has(id);
          const before = loads;
          requests += 1;
          const found = await cache.get(id, async (flight) => {
            loads += 1;
            if (id.startsWith('gone')) return undefined;
            for (const beside of flight.claim([random.pick(ids), random.pick(ids)])) {
              if (beside.startsWith('gone') || random.next() < 0.2) continue;
              flight.deliver(beside, bytesOf(beside, versions.get(beside) ?? 0, 700), 'source');
            }
            return bytesOf(id, version, random.below(4 * KIB));
          });
          const right = id.startsWith('gone') ? !found : versionOf(found!) === version;
          // A filter that forgot a kept file would have had it loaded again.
          if (!right || (had && loads > before)) expect.fail(`seed ${seed}, step ${step}: ${id}`);
        }
        if (cache.stats().bytes > maxBytes) expect.fail(`seed ${seed}, step ${step}: too large`);
      }
      const { hits, misses, loads: counted, absentAnswers, files } = cache.stats();
      expect(hits + misses).toBe(requests);
      expect(counted).toBe(loads);
      expect(counted + absentAnswers).toBe(misses);
      expect(kept(cache, ids)).toBe(files);
      for (const id of ids) cache.delete(id);
      expect(cache.stats()).toMatchObject({ files: 0, bytes: 0 });
    }
  });

  it('never gives bytes that are older than a deletion before the request, however loads interleave', async () => {
    for (let seed = 1; seed <= 30; seed += 1) {
      const random = new Random(seed);
      const cache = new FileCache({ maxBytes: 40 * KIB, aheadShare: 0.25 });
      const ids = idsOf('file', 6);
      const versions = new Map(ids.map((id) => [id, 0]));
      const waiting: (() => void)[] = [];
      const turn = (): Promise<void> => new Promise((resolve) => waiting.push(resolve));
      const results: Promise<void>[] = [];
      for (let step = 0; step < 200; step += 1) {
        const id = random.pick(ids);
        if (random.next() < 0.2) {
          versions.set(id, versions.get(id)! + 1);
          cache.delete(id);
        } else if (random.next() < 0.6) {
          const atLeast = versions.get(id)!;
          const got = cache.get(id, async (flight) => {
            const beside = flight.claim([random.pick(ids), random.pick(ids)]);
            // Read now, delivered later: what a slow disk does.
            const read = [id, ...beside].map((each) => bytesOf(each, versions.get(each)!, 500));
            await turn();
            for (const [index, each] of beside.entries()) {
              if (random.next() < 0.8) flight.deliver(each, read[index + 1]!, 's');
            }
            if (random.next() < 0.1) throw new Error('the disk failed');
            return read[0];
          });
          results.push(
            got.then(
              (bytes) => expect(versionOf(bytes!)).toBeGreaterThanOrEqual(atLeast),
              (error: Error) => expect(error.message).toBe('the disk failed'),
            ),
          );
        } else {
          waiting.splice(random.below(waiting.length + 1), 1)[0]?.();
        }
        if (random.next() < 0.3) await Promise.resolve();
      }
      const all = Promise.all(results);
      let done = false;
      void all.finally(() => {
        done = true;
      });
      while (!done) {
        for (const resolve of waiting.splice(0)) resolve();
        await new Promise((resolve) => setImmediate(resolve));
      }
      await all;
    }
  });
});

describe('a file cache', () => {
  it('loads a file once for all who want it at the same time', async () => {
    const cache = new FileCache({ maxBytes: 100 * KIB });
    let loads = 0;
    let open: (bytes: Buffer) => void = () => {};
    const gate = new Promise<Buffer>((resolve) => {
      open = resolve;
    });
    const readers = Array.from({ length: 100 }, () =>
      cache.get('file', () => {
        loads += 1;
        return gate;
      }),
    );
    open(bytesOf('file', 7, 100));
    for (const bytes of await Promise.all(readers)) expect(versionOf(bytes!)).toBe(7);
    expect(loads).toBe(1);
    expect(cache.stats()).toMatchObject({ loads: 1, sharedLoads: 99, misses: 100, files: 1 });
  });

  it('copies for who wants it alone only what is cached or shared', async () => {
    for (const maxBytes of [0, 100 * KIB]) {
      for (const signal of [undefined, new AbortController().signal]) {
        const cache = new FileCache({ maxBytes });
        const loaded = bytesOf('file', 7, 100);
        const load = async () => loaded;
        const alone = await cache.fetch('file', load, signal, true);
        expect(alone === loaded).toBe(maxBytes === 0);
        expect(cache.peek('file')).not.toBe(alone);
        cache.delete('file');
        const own = [1, 2, 3].map(() => cache.fetch('file', load, signal, true));
        const given = await Promise.all([...own, cache.fetch('file', load, signal)]);
        expect(new Set([...given, cache.peek('file') ?? loaded]).size).toBe(4);
        for (const bytes of given) expect(versionOf(bytes!)).toBe(7);
      }
    }
  });

  it('fails all who wait for a failed load, and loads anew for the next', async () => {
    const cache = new FileCache({ maxBytes: 100 * KIB });
    const failing = async (): Promise<Buffer> => {
      throw new Error('no disk');
    };
    const both = await Promise.allSettled([cache.get('file', failing), cache.get('file', failing)]);
    expect(both.map(({ status }) => status)).toEqual(['rejected', 'rejected']);
    const atOnce = (): Promise<Buffer> => {
      throw new Error('no disk');
    };
    await expect(cache.get('file', atOnce)).rejects.toThrow('no disk');
    expect(versionOf((await cache.get('file', async () => bytesOf('file', 1, 50)))!)).toBe(1);
  });

  it('lets one caller leave without the others, and aborts the load with the last', async () => {
    const cache = new FileCache({ maxBytes: 100 * KIB });
    const [first, second, third] = [1, 2, 3].map(() => new AbortController());
    let aborted: AbortSignal | undefined;
    const load = ({ signal }: { readonly signal: AbortSignal | undefined }): Promise<Buffer> => {
      aborted = signal;
      return new Promise((_, reject) => {
        signal!.addEventListener('abort', () => reject(signal!.reason));
      });
    };
    const readers = [first, second, third].map((each) =>
      cache.get('file', load, { signal: each!.signal }),
    );
    const outcomes = Promise.allSettled(readers);
    first!.abort(new Error('gone'));
    await expect(readers[0]).rejects.toThrow('gone');
    expect(aborted!.aborted).toBe(false);
    second!.abort();
    third!.abort();
    expect((await outcomes).map(({ status }) => status)).toEqual(Array(3).fill('rejected'));
    expect(aborted!.aborted).toBe(true);
    // Not the aborted load, but one of its own.
    expect(versionOf((await cache.get('file', async () => bytesOf('file', 2, 9)))!)).toBe(2);
    const refused = cache.get('file', load, { signal: AbortSignal.abort(new Error('before')) });
    await expect(refused).rejects.toThrow('before');
  });

  it('does not keep what was deleted while it was being loaded', async () => {
    const cache = new FileCache({ maxBytes: 100 * KIB });
    let open: (bytes: Buffer) => void = () => {};
    const before = cache.get('file', () => new Promise<Buffer>((resolve) => (open = resolve)));
    cache.delete('file');
    const after = cache.get('file', async () => bytesOf('file', 2, 10));
    open(bytesOf('file', 1, 10));
    expect(versionOf((await before)!)).toBe(1);
    expect(versionOf((await after)!)).toBe(2);
    expect(versionOf(cache.find('file')!)).toBe(2);
  });

  it('does not keep a file larger than its share, nor anything when it has no room', async () => {
    const cache = new FileCache({ maxBytes: 80 * KIB });
    await fill(cache, ['large'], 10 * KIB + 1);
    await fill(cache, ['fits'], 9 * KIB);
    expect(cache.has('large')).toBe(false);
    expect(cache.has('fits')).toBe(true);
    expect(cache.stats().tooLarge).toBe(1);
    const none = new FileCache({ maxBytes: 0 });
    await fill(none, ['a', 'a'], 10);
    expect(none.stats()).toMatchObject({ hits: 0, misses: 2, files: 0, bytes: 0 });
  });

  it('believes for a short time that a file is absent, until it is made', async () => {
    let nowMs = 1;
    const cache = new FileCache({ maxBytes: 10 * KIB, now: () => nowMs });
    let looks = 0;
    const none = async (): Promise<undefined> => {
      looks += 1;
    };
    for (let again = 0; again < 5; again += 1) await cache.get('file', none);
    expect(looks).toBe(1);
    nowMs = 1002;
    await cache.get('file', none);
    expect(looks).toBe(2);
    cache.delete('file');
    expect(versionOf((await cache.get('file', async () => bytesOf('file', 3, 9)))!)).toBe(3);
    expect(cache.stats().absentAnswers).toBe(4);
  });

  it('remembers a bounded number of absent files', async () => {
    const cache = new FileCache({ maxBytes: 10 * KIB, now: () => 1 });
    let looks = 0;
    const look = async (): Promise<undefined> => {
      looks += 1;
    };
    for (const id of idsOf('absent', 5000)) await cache.get(id, look);
    await cache.get('absent-0', look);
    expect(looks).toBe(5001);
    await cache.get('absent-4999', look);
    expect(looks).toBe(5001);
  });

  it('says why it missed, and what it gave in files and in bytes', async () => {
    const cache = new FileCache({ maxBytes: 100 * KIB });
    await fill(cache, ['a', 'b', 'a', 'a'], 1000);
    cache.delete('a');
    await fill(cache, ['a'], 3000);
    expect(cache.stats()).toMatchObject({
      hits: 2,
      hitBytes: 2000,
      misses: 3,
      missBytes: 5000,
      missesFirst: 2,
      missesAgain: 1,
      hitRatio: 2 / 5,
      byteHitRatio: 2 / 7,
    });
  });

  it('holds no more memory than it says, although its files come in large pieces', async () => {
    const maxBytes = 8 * 2 ** 20;
    const cache = new FileCache({ maxBytes, aheadShare: 0.25 });
    collectGarbage();
    const before = process.memoryUsage().arrayBuffers;
    const piece = 2 ** 20;
    const size = 20 * KIB;
    for (let index = 0; index < 400; index += 1) {
      await cache.get(`first-${index}`, async (flight) => {
        const read = Buffer.allocUnsafeSlow(piece);
        for (const id of flight.claim(idsOf(`beside-${index}`, 3))) {
          flight.deliver(id, read.subarray(size, 2 * size), 'trunk');
        }
        return read.subarray(0, size);
      });
    }
    expect(cache.stats().files).toBeGreaterThan(300);
    // Were the pieces kept for the sake of the files in them, it would stay hundreds of MiB.
    await until(() => {
      collectGarbage();
      return process.memoryUsage().arrayBuffers - before < maxBytes * 1.25;
    });
  });

  it('takes a file that is there at once, unless another load of it is under way', async () => {
    const cache = new FileCache({ maxBytes: 100 * KIB });
    expect(cache.getNow('none', () => undefined)).toBeUndefined();
    expect(cache.stats()).toMatchObject({ misses: 0, loads: 0 });
    const bytes = bytesOf('file', 1, 1000);
    expect(cache.getNow('file', () => bytes)?.equals(bytes)).toBe(true);
    const unexpected = (): Buffer => expect.fail('it is in memory');
    expect(cache.getNow('file', unexpected)?.equals(bytes)).toBe(true);
    expect(cache.stats()).toMatchObject({ hits: 1, misses: 1, loads: 1, missBytes: 1000 });
    let open: (bytes: Buffer) => void = () => {};
    const coming = cache.get('other', () => new Promise<Buffer>((resolve) => (open = resolve)));
    expect([cache.has('other'), cache.isComing('other')]).toEqual([false, true]);
    expect(cache.getNow('other', unexpected)).toBeUndefined();
    expect(cache.fetchNow('other', unexpected)).toBeUndefined();
    expect(await cache.get('absent', async () => undefined)).toBeUndefined();
    expect(cache.fetchNow('absent', unexpected)).toBeUndefined();
    open(bytesOf('other', 1, 10));
    await coming;
    expect([cache.isComing('other'), cache.isComing('none')]).toEqual([true, false]);
    expect(cache.peek('none')).toBeUndefined();
    expect(cache.peek('other')).toBeDefined();
    expect(cache.stats().hits).toBe(1);
  });

  it('keeps a file that costs little to load only when it is asked for again', () => {
    const cache = new FileCache({ maxBytes: 100 * KIB });
    const bytes = bytesOf('file', 1, 1000);
    const ask = () => cache.find('file') ?? cache.fetchNow('file', () => bytes);
    for (const kept of [false, true, true]) {
      expect(ask()?.equals(bytes)).toBe(true);
      expect(cache.has('file')).toBe(kept);
    }
    expect(cache.stats()).toMatchObject({ hits: 1, misses: 2, loads: 2 });
  });

  it('drops what has a prefix, kept or still being loaded, and nothing else', async () => {
    const cache = new FileCache({ maxBytes: 100 * KIB });
    await fill(cache, ['a/kept', 'b/kept', 'b/a/'], 100);
    const opens: (() => void)[] = [];
    const coming = ['a/coming', 'b/coming'].map((id) =>
      cache.get(id, () => new Promise((resolve) => opens.push(() => resolve(bytesOf(id, 1, 9))))),
    );
    cache.deletePrefix('a/');
    for (const open of opens) open();
    await Promise.all(coming);
    const ids = ['a/kept', 'b/kept', 'b/a/', 'a/coming', 'b/coming'];
    expect(ids.filter((id) => cache.has(id))).toEqual(['b/kept', 'b/a/', 'b/coming']);
  });

  it('keeps a buffer that is the file’s own, or has a byte more, and copies any other', async () => {
    const cache = new FileCache({ maxBytes: 100 * KIB });
    const alone = Buffer.allocUnsafeSlow(100);
    const more = Buffer.allocUnsafeSlow(101).subarray(0, 100);
    const view = Buffer.allocUnsafeSlow(102).subarray(0, 100);
    expect(await cache.get('alone', async () => alone)).toBe(alone);
    expect(await cache.get('more', async () => more)).toBe(more);
    const kept = await cache.get('view', async () => view);
    expect(kept).not.toBe(view);
    expect(kept).toEqual(view);
    expect(cache.find('view')).toBe(kept);
  });

  it('has tables that grow with its files', async () => {
    const tables = async (files: number, filter: boolean) => {
      const cache = new FileCache({ maxBytes: 4096 * 400, filter });
      const { tableBytes } = cache.stats();
      await fill(cache, idsOf('file', files), 10);
      return cache.stats().tableBytes / tableBytes;
    };
    expect(await tables(1024, false)).toBe(1);
    expect(await tables(1025, false)).toBe(2);
    const [plain, filtered] = [false, true].map(
      (filter) => new FileCache({ maxBytes: 1, filter }).stats().tableBytes,
    );
    expect(filtered).toBeGreaterThan(plain!);
  });
});

import { FileCache } from '@stevedore/cache';
import { SeededRandom } from '../harness/seeded-random.js';
import { filesForShare, shareOfRequests, Zipf } from '../harness/zipf.js';

/**
 * What the product's cache makes of requests by Zipf's law. It is driven with a population that is
 * small enough to be driven; what is carried over to a large one is the share of the cache that is
 * well used: a cache that hits as often as the perfect one of half its size has a yield of one half.
 */

export interface CacheRun {
  readonly files: number;
  readonly exponent: number;
  /** The cache has room for so many of the files. */
  readonly roomFiles: number;
  /** Requests before those that count, and those: for each file. */
  readonly warmUp: number;
  readonly counted: number;
  /** All files were just uploaded, one after the other. */
  readonly isUploaded: boolean;
  readonly seed: number;
}

export type CachePoint = Awaited<ReturnType<typeof runCache>>;

/** A body stands for any: the cache counts files of one size. */
const BODY_BYTES = 16;
/** `AHEAD_SHARE` of the SDK's reader: files read along with others of their group. */
const AHEAD_SHARE = 0.25;
const KEY_CHARS = 22;
const YIELD_EVERY = 50_000;

/** Bytes that a cached file takes beside its own. */
export const ENTRY_BYTES = measuredEntryBytes();

function measuredEntryBytes(): number {
  const cache = new FileCache({ maxBytes: 2 ** 20 });
  cache.getNow('k'.repeat(KEY_CHARS), () => Buffer.allocUnsafeSlow(BODY_BYTES));
  return cache.stats().bytes - BODY_BYTES;
}

/** What the cache of a store must be given to have room for so many files of this mean size. */
function cacheBytesFor(files: number, meanBytes: number): number {
  return Math.round(files * (meanBytes + ENTRY_BYTES));
}

export async function runCache(run: CacheRun) {
  const { files, exponent, roomFiles, isUploaded } = run;
  const cache = new FileCache({
    maxBytes: cacheBytesFor(roomFiles, BODY_BYTES),
    aheadShare: AHEAD_SHARE,
  });
  const random = new SeededRandom(run.seed);
  const zipf = new Zipf(files, exponent, random.next);
  if (isUploaded) for (const rank of ranksShuffled(files, run.seed)) cache.getNow(idOf(rank), body);
  let done = 0;
  const ask = async (count: number) => {
    const before = cache.stats().hits;
    for (let at = 0; at < count; at += 1) {
      const id = idOf(zipf.next());
      if (!cache.find(id)) await cache.fetch(id, load);
      done += 1;
      if (done % YIELD_EVERY === 0) await new Promise((resolve) => setImmediate(resolve));
    }
    return (cache.stats().hits - before) / count;
  };
  await ask(Math.ceil(files * run.warmUp));
  const hitRatio = await ask(Math.ceil(files * run.counted));
  return {
    roomFiles,
    hitRatio,
    /** Files of the perfect cache that hits as often, for each file that this one has room for. */
    yield: filesForShare(hitRatio, files, exponent) / roomFiles,
    tableBytesPerFile: cache.stats().tableBytes / Math.max(1, cache.stats().files),
  };
}

const body = () => Buffer.allocUnsafeSlow(BODY_BYTES);
const load = () => Promise.resolve(body());

/** As long as a key. */
function idOf(rank: number): string {
  return String(rank).padStart(KEY_CHARS, '0');
}

/** The ranks of so many files in an order of the seed. */
function ranksShuffled(files: number, seed: number): readonly number[] {
  const ranks = Array.from({ length: files }, (_, index) => index + 1);
  return new SeededRandom(seed ^ 0x0badcafe).shuffled(ranks);
}

/** The hit ratio of a cache with room for so many files, if its yield is this. */
export function hitRatioOf(
  roomFiles: number,
  { files, exponent, yield: used }: { files: number; exponent: number; yield: number },
): number {
  return shareOfRequests(roomFiles * used, files, exponent);
}

/** With a part for files read along, a cache that has all files needs room for some more. */
const MOST_ROOM = 1.02 / (1 - AHEAD_SHARE);
/** Room, as shares of the population, at which the cache is driven. */
const ROOM_SHARES = [0.01, 0.03, 0.1, 0.3, 0.6, 1, MOST_ROOM] as const;

/** Yields by the hit ratio at which they were seen, ascending. */
export type Yields = readonly CachePoint[];

export async function measureYields(
  base: Omit<CacheRun, 'roomFiles' | 'isUploaded'>,
): Promise<Yields> {
  const points: CachePoint[] = [];
  for (const share of ROOM_SHARES) {
    const roomFiles = Math.ceil(base.files * share);
    points.push(await runCache({ ...base, roomFiles, isUploaded: true }));
  }
  return points.sort((a, b) => a.hitRatio - b.hitRatio);
}

/** Between two points that were seen the yield is on a line; beyond them it is the last one. */
function yieldAt(yields: Yields, hitRatio: number): number {
  const next = yields.findIndex((point) => point.hitRatio >= hitRatio);
  if (next === -1) return yields.at(-1)!.yield;
  const [before, after] = [yields[next - 1], yields[next]!];
  if (!before) return after.yield;
  const way = (hitRatio - before.hitRatio) / (after.hitRatio - before.hitRatio);
  return before.yield + way * (after.yield - before.yield);
}

/** Files that a cache must have room for to reach the hit ratio. */
export function roomFor(
  hitRatio: number,
  { files, exponent, yields }: { files: number; exponent: number; yields: Yields },
): number {
  const perfect = filesForShare(hitRatio, files, exponent);
  return Math.min(files * MOST_ROOM, perfect / yieldAt(yields, hitRatio));
}

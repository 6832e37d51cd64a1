import type { ReadAheadStats } from './read-ahead.js';

/** What a cache has done since it was created. */
export interface FileCacheStats {
  readonly hits: number;
  /** Requests not answered from memory: `missesFirst` plus `missesAgain`. */
  readonly misses: number;
  /** Share of the requests, and of their bytes, answered from memory; 0 before the first. */
  readonly hitRatio: number;
  readonly byteHitRatio: number;
  readonly hitBytes: number;
  readonly missBytes: number;
  /** Misses of files that seem not to have been requested before. */
  readonly missesFirst: number;
  /** Misses of files requested before, but evicted, rejected, deleted or not cached. */
  readonly missesAgain: number;
  /** Misses that started a load, joined one in flight, or were of files known to be absent. */
  readonly loads: number;
  readonly sharedLoads: number;
  readonly absentAnswers: number;
  /** Loaded, but too large to cache. */
  readonly tooLarge: number;
  /** The filter's "no" answers, and its wrong "maybe" ones. */
  readonly filterNo: number;
  readonly filterFalse: number;
  /** Files evicted to make room, and files not requested often enough to be admitted. */
  readonly evicted: number;
  readonly rejected: number;
  /** Bytes of evicted and rejected files. */
  readonly goneBytes: number;
  readonly files: number;
  /** Cached now, including bookkeeping. */
  readonly bytes: number;
  /** Memory of filter and counters, in addition to `bytes`; grows with the number of files. */
  readonly tableBytes: number;
  readonly readAhead: ReadAheadStats;
}

type Present = Pick<FileCacheStats, 'files' | 'bytes' | 'tableBytes' | 'readAhead'>;

export class CacheCounters {
  hits = 0;
  hitBytes = 0;
  missBytes = 0;
  missesFirst = 0;
  missesAgain = 0;
  loads = 0;
  sharedLoads = 0;
  absentAnswers = 0;
  tooLarge = 0;
  filterNo = 0;
  filterFalse = 0;
  evicted = 0;
  rejected = 0;
  goneBytes = 0;

  stats(present: Present): FileCacheStats {
    const misses = this.missesFirst + this.missesAgain;
    return {
      ...this,
      ...present,
      misses,
      hitRatio: share(this.hits, misses),
      byteHitRatio: share(this.hitBytes, this.missBytes),
    };
  }
}

function share(part: number, rest: number): number {
  return part + rest === 0 ? 0 : part / (part + rest);
}

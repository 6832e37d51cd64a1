import type { ReadAheadStats } from './read-ahead.js';

/** What a cache has done since it was made. */
export interface FileCacheStats {
  readonly hits: number;
  /** Requests that were not answered from memory: `missesFirst` and `missesAgain`. */
  readonly misses: number;
  /** Share of the requests, and of their bytes, that memory answered; 0 before the first. */
  readonly hitRatio: number;
  readonly byteHitRatio: number;
  readonly hitBytes: number;
  readonly missBytes: number;
  /** Of the misses: not asked for before, as far as is known. */
  readonly missesFirst: number;
  /** Of the misses: asked for before, but evicted, rejected, deleted or not kept. */
  readonly missesAgain: number;
  /** Of the misses: began a load, waited for one that was under way, known to be absent. */
  readonly loads: number;
  readonly sharedLoads: number;
  readonly absentAnswers: number;
  /** Loaded and not kept for their size. */
  readonly tooLarge: number;
  /** The filter's sure answers, and its wrong ones: a file that was not there after all. */
  readonly filterNo: number;
  readonly filterFalse: number;
  /** Files evicted to make room, and files not asked for often enough to be admitted. */
  readonly evicted: number;
  readonly rejected: number;
  /** Bytes of both. */
  readonly goneBytes: number;
  readonly files: number;
  /** Kept now, bookkeeping included. */
  readonly bytes: number;
  /** Memory of filter and counters, beside `bytes`; fixed. */
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

import {
  type BloomFilter,
  bloomFilter,
  type CheapHashing,
  FILTER_HASHES,
  type TextHash,
} from './bloom-filter.js';

/**
 * Estimates how often a file was requested lately, in a few bytes per file (TinyLFU). A Bloom
 * filter of three hashes takes the first request (most files have no second), a table of counters
 * the others. After a number of requests that follows the table size, all counts are halved and the
 * first requests forgotten, so that files that were popular long ago make room. Counts may be too
 * high, never too low within a period.
 */

const ROWS = 4;
/**
 * Places of a row per file, so that few files of a scan share a counter with a popular file in
 * every row.
 */
const PLACES_PER_FILE = 4;
const MIN_FILES = 16;
const COUNT_END = 15;
/** Requests per file after which counts are halved. */
const PERIOD_FACTOR = 10;
/**
 * Places of the filter per file. After a whole period of files requested once, it takes one in ten
 * of the last for a second request.
 */
const FIRST_PLACES_FACTOR = PERIOD_FACTOR * 5;

export class Frequency {
  readonly #hashing: CheapHashing;
  #firstTimes: BloomFilter;
  #counters: Uint8Array;
  /** Files that the tables are sized for, a power of two. */
  #files: number;
  #requests = 0;

  constructor(files: number, hashing: CheapHashing) {
    this.#files = tableFiles(files);
    this.#counters = new Uint8Array(this.#width * ROWS);
    this.#hashing = hashing;
    this.#firstTimes = bloomFilter(this.#files * FIRST_PLACES_FACTOR, FILTER_HASHES, hashing);
  }

  /** Grows the tables for this many files and keeps their content. */
  growTo(files: number): void {
    while (this.#files < tableFiles(files)) this.#double();
  }

  /** Memory of the tables. */
  get byteLength(): number {
    return this.#counters.length + this.#firstTimes._filter.array.length;
  }

  /** Counts a request; false if it seems to be the first one for the file. */
  count(id: string): boolean {
    this.#requests += 1;
    if (this.#requests >= this.#files * PERIOD_FACTOR) this.#age();
    if (!this.#firstTimes.has(id)) {
      this.#firstTimes.add(id);
      return this.#counted(this.#hashing.hashOf(id)) > 0;
    }
    this.#increase(this.#hashing.hashOf(id));
    return true;
  }

  estimate(id: string): number {
    return (this.#firstTimes.has(id) ? 1 : 0) + this.#counted(this.#hashing.hashOf(id));
  }

  #counted({ first, second }: TextHash): number {
    let least = COUNT_END;
    for (let row = 0, hash = second; row < ROWS; row += 1, hash = (hash + first) | 0) {
      least = Math.min(least, this.#counters[this.#place(row, hash)]!);
    }
    return least;
  }

  /** Increments only the lowest counters: the others are too high already. */
  #increase(hashes: TextHash): void {
    const least = this.#counted(hashes);
    if (least === COUNT_END) return;
    for (
      let row = 0, hash = hashes.second;
      row < ROWS;
      row += 1, hash = (hash + hashes.first) | 0
    ) {
      const place = this.#place(row, hash);
      if (this.#counters[place] === least) this.#counters[place] = least + 1;
    }
  }

  get #width(): number {
    return this.#files * PLACES_PER_FILE;
  }

  #place(row: number, hash: number): number {
    const spread = Math.imul(hash ^ (hash >>> 16), 0x45d9f3b + (row << 1));
    const width = this.#width;
    return row * width + ((spread ^ (spread >>> 15)) & (width - 1));
  }

  /** Copies each half, because a place maps to one of two places in a table twice as wide. */
  #double(): void {
    const width = this.#width;
    const counters = new Uint8Array(2 * width * ROWS);
    for (let row = 0; row < ROWS; row += 1) {
      const counts = this.#counters.subarray(row * width, (row + 1) * width);
      counters.set(counts, 2 * row * width);
      counters.set(counts, (2 * row + 1) * width);
    }
    const old = this.#firstTimes._filter.array;
    this.#files *= 2;
    this.#firstTimes = bloomFilter(this.#files * FIRST_PLACES_FACTOR, FILTER_HASHES, this.#hashing);
    const { array } = this.#firstTimes._filter;
    array.set(old, 0);
    array.set(old, old.length);
    this.#counters = counters;
  }

  #age(): void {
    this.#requests = 0;
    this.#firstTimes._filter.array.fill(0);
    for (let at = 0; at < this.#counters.length; at += 1) this.#counters[at]! >>= 1;
  }
}

function tableFiles(files: number): number {
  return 2 ** Math.ceil(Math.log2(Math.max(MIN_FILES, files)));
}

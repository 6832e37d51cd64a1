import { FILTER_HASHES } from './member-filter.js';
import { type BloomFilter, bloomFilter, type CheapHashing, type TextHash } from './text-hash.js';

/**
 * About how often a file was asked for lately, in a few bytes a file (TinyLFU). A
 * Bloom filter of three hashes takes the first time (most files have no second), a
 * table of counters the others; after a number of requests that follows the size of
 * the table all counts are halved and the first times forgotten, so that what was
 * popular long ago makes room. Counts may be too high, never too low within a period.
 */

const ROWS = 4;
const COUNT_END = 15;
/** Requests after which counts are halved, per place of a row. */
const PERIOD_FACTOR = 10;
/**
 * Places of the filter of first times, per place of a row: with a whole period of files
 * that are asked for once, one in ten of the last is taken for a second time.
 */
const FIRST_PLACES_FACTOR = PERIOD_FACTOR * 5;

export class Frequency {
  readonly #hashing: CheapHashing;
  readonly #firstTimes: BloomFilter;
  readonly #counters: Uint8Array;
  readonly #mask: number;
  readonly #period: number;
  #requests = 0;

  constructor(expectedFiles: number, hashing: CheapHashing) {
    const width = 2 ** Math.ceil(Math.log2(Math.max(16, expectedFiles)));
    this.#mask = width - 1;
    this.#period = width * PERIOD_FACTOR;
    this.#counters = new Uint8Array(width * ROWS);
    this.#hashing = hashing;
    this.#firstTimes = bloomFilter(width * FIRST_PLACES_FACTOR, FILTER_HASHES, hashing);
  }

  /** Memory of its tables. */
  get byteLength(): number {
    return this.#counters.length + this.#firstTimes._filter.array.length;
  }

  /** Counts a request; false if it is the first one for the file, as far as is known. */
  count(id: string): boolean {
    this.#requests += 1;
    if (this.#requests >= this.#period) this.#age();
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

  /** Only the least of the counters: the others are too high already. */
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

  #place(row: number, hash: number): number {
    const spread = Math.imul(hash ^ (hash >>> 16), 0x45d9f3b + (row << 1));
    return row * (this.#mask + 1) + ((spread ^ (spread >>> 15)) & this.#mask);
  }

  #age(): void {
    this.#requests = 0;
    this.#firstTimes._filter.array.fill(0);
    for (let at = 0; at < this.#counters.length; at += 1) this.#counters[at]! >>= 1;
  }
}

import { type BloomFilter, bloomFilter, type CheapHashing } from './text-hash.js';

/**
 * The data node paper's filter: a Bloom filter of three hashes that says, without a
 * look into the list, that a file is not in the cache. The paper's cannot forget what
 * was evicted and ends up saying "maybe" to everything; this one counts the files
 * behind each bit and clears the bit with the last of them, so it stays true for
 * ever. A counter that has reached its end stays there: the bit is never cleared,
 * which costs looks, never a wrong "no".
 */

export const FILTER_HASHES = 3;
/** Places per file for one wrong "maybe" in a hundred with three hashes. */
const PLACES_PER_FILE = 12.4;
const COUNTER_END = 0xff;

export class MemberFilter {
  readonly #bits: BloomFilter;
  readonly #counters: Uint8Array;
  readonly #hashing: CheapHashing;
  readonly #size: number;

  constructor(expectedFiles: number, hashing: CheapHashing) {
    this.#size = Math.ceil(expectedFiles * PLACES_PER_FILE);
    this.#hashing = hashing;
    this.#bits = bloomFilter(this.#size, FILTER_HASHES, hashing);
    this.#counters = new Uint8Array(this.#size);
  }

  /** Memory of its tables. */
  get byteLength(): number {
    return this.#counters.length + Math.ceil(this.#size / 8);
  }

  /** False: surely not there. */
  has(id: string): boolean {
    return this.#bits.has(id);
  }

  /** Once for every file that comes in; the same file again only after `remove`. */
  add(id: string): void {
    this.#bits.add(id);
    for (const place of this.#places(id)) {
      if (this.#counters[place]! < COUNTER_END) this.#counters[place]! += 1;
    }
  }

  /** Only for a file that was added. */
  remove(id: string): void {
    const { array } = this.#bits._filter;
    for (const place of this.#places(id)) {
      const count = this.#counters[place]!;
      if (count === COUNTER_END) continue;
      this.#counters[place] = count - 1;
      if (count === 1) array[place >> 3]! &= ~(1 << (place & 7));
    }
  }

  #places(id: string): number[] {
    return this.#hashing.getIndexes(id, this.#size, FILTER_HASHES);
  }
}

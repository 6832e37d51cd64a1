import bloomFilters from 'bloom-filters';

/**
 * A 32-bit hash of a text and another mixed from it. Double hashing makes any number of table
 * places from both. It replaces the hashing of `bloom-filters`, whose JavaScript xxhash takes some
 * 10 µs per text. Texts are ids that nobody can choose freely, so it need not withstand attacks: a
 * collision costs a lookup or a wrong estimate of a file's requests, never a wrong file.
 */
export interface TextHash {
  readonly first: number;
  /** Odd, so that its steps reach every place of a table whose size is a power of two. */
  readonly second: number;
}

/** Ids differ at their ends: only this many last characters are hashed. */
const MAX_CHARS = 64;
const SEED = 0x811c9dc5;
const FACTOR = 0x01000193;

function hashText(text: string): TextHash {
  let hash = SEED ^ text.length;
  for (let at = Math.max(0, text.length - MAX_CHARS); at < text.length; at += 1) {
    hash = Math.imul(hash ^ text.charCodeAt(at), FACTOR);
  }
  const first = mixed(hash);
  return { first, second: mixed(first ^ SEED) | 1 };
}

/** Spreads the effect of the last characters over all bits. */
function mixed(hash: number): number {
  let value = hash ^ (hash >>> 16);
  value = Math.imul(value, 0x7feb352d);
  value ^= value >>> 15;
  value = Math.imul(value, 0x846ca68b);
  return value ^ (value >>> 16);
}

/** Cheap hashing for filters of `bloom-filters`. Keeps the hash of the last text. */
export class CheapHashing {
  #text: string | undefined;
  #hash: TextHash = { first: 0, second: 1 };
  /** Reused for every answer, so callers must read it at once. */
  readonly #indexes: number[] = [];

  hashOf(text: string): TextHash {
    if (text === this.#text) return this.#hash;
    this.#text = text;
    this.#hash = hashText(text);
    return this.#hash;
  }

  getIndexes(text: string, size: number, hashCount: number): number[] {
    const { first, second } = this.hashOf(text);
    const indexes = this.#indexes;
    indexes.length = hashCount;
    for (let at = 0, hash = first; at < hashCount; at += 1, hash = (hash + second) | 0) {
      // Drops the sign: the remainder of small integers is far cheaper.
      indexes[at] = (hash & 0x7fffffff) % size;
    }
    return indexes;
  }
}

export type BloomFilter = InstanceType<typeof bloomFilters.BloomFilter>;

/** A filter of `size` places that needs only indexes from its hashing. */
export function bloomFilter(size: number, hashes: number, hashing: CheapHashing): BloomFilter {
  const filter = new bloomFilters.BloomFilter(size, hashes);
  filter._hashing = hashing as unknown as BloomFilter['_hashing'];
  return filter;
}

/**
 * The filter of the data node paper: a Bloom filter of three hashes that says, without a lookup in
 * the list, that a file is not in the cache. The paper's filter cannot forget evicted files and
 * ends up saying "maybe" to everything. This one counts the files behind each bit and clears the
 * bit with the last of them, so it stays accurate. A saturated counter stays: its bit is never
 * cleared, which costs lookups, never a wrong "no".
 */

export const FILTER_HASHES = 3;
/** Places per file for 1 % of wrong "maybe" with three hashes. */
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

  /** Memory of the tables. */
  get byteLength(): number {
    return this.#counters.length + Math.ceil(this.#size / 8);
  }

  /** False: the file is not there. */
  has(id: string): boolean {
    return this.#bits.has(id);
  }

  /** Call it once for each file that enters; for the same file again only after `remove`. */
  add(id: string): void {
    this.#bits.add(id);
    for (const place of this.#places(id)) {
      if (this.#counters[place]! < COUNTER_END) this.#counters[place]! += 1;
    }
  }

  /** Call it only for a file that was added. */
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

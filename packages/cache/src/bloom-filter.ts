import bloomFilters from 'bloom-filters';

/**
 * A 32-bit hash of a text, another that is mixed from it, and from both any number of
 * places in a table by double hashing. It stands in for the hashing of `bloom-filters`, whose
 * xxhash in JavaScript takes some 10 µs a text. Texts here are ids that nobody can
 * choose freely, so that it need not withstand an attack: a clash costs a look or a
 * wrong guess of how often a file is asked for, never a wrong file.
 */
export interface TextHash {
  readonly first: number;
  /** Odd, so that steps of it reach every place of a table of a power of two. */
  readonly second: number;
}

/** Ids differ at their ends: of a longer one only so many characters count. */
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

/** Spreads what the last characters did over all bits. */
function mixed(hash: number): number {
  let value = hash ^ (hash >>> 16);
  value = Math.imul(value, 0x7feb352d);
  value ^= value >>> 15;
  value = Math.imul(value, 0x846ca68b);
  return value ^ (value >>> 16);
}

/** The hashing of a filter of `bloom-filters`, made cheap. The last text's hash is kept. */
export class CheapHashing {
  #text: string | undefined;
  #hash: TextHash = { first: 0, second: 1 };
  /** Used again for every answer, so callers read it at once. */
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
      // Without the sign: the remainder of small integers is far cheaper than that of others.
      indexes[at] = (hash & 0x7fffffff) % size;
    }
    return indexes;
  }
}

export type BloomFilter = InstanceType<typeof bloomFilters.BloomFilter>;

/** A filter of `size` places that asks its hashing for nothing but indexes. */
export function bloomFilter(size: number, hashes: number, hashing: CheapHashing): BloomFilter {
  const filter = new bloomFilters.BloomFilter(size, hashes);
  filter._hashing = hashing as unknown as BloomFilter['_hashing'];
  return filter;
}

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

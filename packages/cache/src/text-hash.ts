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
  /** Used again for every answer: whoever asks looks at it at once. */
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

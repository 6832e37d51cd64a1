/**
 * Estimates how often a file was requested lately, in a few bytes per file (TinyLFU). Bits, three
 * for each file, take the first request (most files have no second), a table of counters the others. After a number of requests that follows the table size, all counts are halved and the
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
 * Bits per file for first requests, at least. After a whole period of files requested once, one in
 * ten of the last is taken for a second request.
 */
const FIRST_BITS = 2 ** Math.ceil(Math.log2(PERIOD_FACTOR * 5));
const FIRST_HASHES = 3;

export class Frequency {
  #firstTimes: Uint8Array;
  #counters: Uint8Array;
  /** Files that the tables are sized for, a power of two. */
  #files: number;
  #requests = 0;

  constructor(files: number) {
    this.#files = tableFiles(files);
    this.#counters = new Uint8Array(this.#width * ROWS);
    this.#firstTimes = new Uint8Array((this.#files * FIRST_BITS) / 8);
  }

  /** Grows the tables for this many files and keeps their content. */
  growTo(files: number): void {
    while (this.#files < tableFiles(files)) this.#double();
  }

  /** Memory of the tables. */
  get byteLength(): number {
    return this.#counters.length + this.#firstTimes.length;
  }

  /** Counts a request; false if it seems to be the first one for the file. */
  count(id: string): boolean {
    this.#requests += 1;
    if (this.#requests >= this.#files * PERIOD_FACTOR) this.#age();
    const hash = hashOf(id);
    if (!this.#wasRequested(hash, true)) return this.#counted(hash) > 0;
    this.#increase(hash);
    return true;
  }

  estimate(id: string): number {
    const hash = hashOf(id);
    return (this.#wasRequested(hash, false) ? 1 : 0) + this.#counted(hash);
  }

  /** `sets`: from now on it was. */
  #wasRequested({ first, second }: TextHash, sets: boolean): boolean {
    const bits = this.#firstTimes;
    let isSet = true;
    for (
      let count = 0, hash = first;
      count < FIRST_HASHES;
      count += 1, hash = (hash + second) | 0
    ) {
      const at = (hash >>> 3) & (bits.length - 1);
      const bit = 1 << (hash & 7);
      if ((bits[at]! & bit) !== 0) continue;
      isSet = false;
      if (sets) bits[at]! |= bit;
    }
    return isSet;
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
    this.#files *= 2;
    const old = this.#firstTimes;
    this.#firstTimes = new Uint8Array(2 * old.length);
    this.#firstTimes.set(old, 0);
    this.#firstTimes.set(old, old.length);
    this.#counters = counters;
  }

  #age(): void {
    this.#requests = 0;
    this.#firstTimes.fill(0);
    for (let at = 0; at < this.#counters.length; at += 1) this.#counters[at]! >>= 1;
  }
}

function tableFiles(files: number): number {
  return 2 ** Math.ceil(Math.log2(Math.max(MIN_FILES, files)));
}

/**
 * Two 32-bit hashes of an id; sums of them are places in tables whose size is a power of two. Nobody
 * can choose ids freely, so it need not withstand attacks: a collision costs a wrong estimate.
 */
interface TextHash {
  readonly first: number;
  /** Odd, so that its steps reach every place. */
  readonly second: number;
}

/** Ids differ at their ends: only this many last characters are hashed. */
const MAX_CHARS = 64;
const SEED = 0x811c9dc5;
const FACTOR = 0x01000193;

/** FNV-1a, mixed. */
function hashOf(text: string): TextHash {
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

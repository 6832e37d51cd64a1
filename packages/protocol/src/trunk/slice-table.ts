import type { SliceEntry } from '../slice-id.js';

/**
 * What a trunk's directory says about its slices, packed for keeping in memory:
 * 12 bytes a slice. Answers whether offset, size and CRC-32 of a slice id name
 * an entry; anything else is a forgery.
 */
export class SliceTable {
  readonly #offsets: Uint32Array;
  readonly #sizes: Uint32Array;
  readonly #crcs: Uint32Array;

  constructor(entries: readonly SliceEntry[]) {
    const sorted = [...entries].sort((a, b) => a.offset - b.offset);
    this.#offsets = Uint32Array.from(sorted, (entry) => entry.offset);
    this.#sizes = Uint32Array.from(sorted, (entry) => entry.size);
    this.#crcs = Uint32Array.from(sorted, (entry) => entry.crc32);
  }

  /** Memory held, in bytes. */
  get byteLength(): number {
    return this.#offsets.byteLength * 3;
  }

  has(entry: SliceEntry): boolean {
    const at = this.#find(entry.offset);
    return at !== -1 && this.#sizes[at] === entry.size && this.#crcs[at] === entry.crc32;
  }

  #find(offset: number): number {
    let low = 0;
    let high = this.#offsets.length - 1;
    while (low <= high) {
      const middle = (low + high) >> 1;
      const found = this.#offsets[middle]!;
      if (found === offset) return middle;
      if (found < offset) low = middle + 1;
      else high = middle - 1;
    }
    return -1;
  }
}

import type { SliceEntry } from '../slice-id.js';
import { scanTrunkDirectory, type TrunkEnd } from './archive.js';

/**
 * A trunk's directory, packed for memory: 13 bytes per slice. Tells whether offset, size and CRC-32
 * of a slice id match an entry; any other slice id is a forgery. Also knows which adjacent slices
 * are members of one affinity group.
 */

export interface GroupedEntry extends SliceEntry {
  readonly group?: string | undefined;
}

/** A slice and the members of its group, ordered by offset. */
export interface SliceGroup {
  readonly members: readonly SliceEntry[];
  /** Index of the requested slice. */
  readonly asked: number;
}

const GROUP_KEY = Buffer.from('"group"');

/** The affinity group in an entry's comment, if we wrote the comment and it names one. */
export function groupOfComment(comment: string): string | undefined {
  // Most files have no group, and a search is cheaper than a parse.
  if (!comment.includes('"group"')) return undefined;
  try {
    const { group } = JSON.parse(comment) as { readonly group?: unknown };
    return typeof group === 'string' ? group : undefined;
  } catch {
    return undefined;
  }
}

export class SliceTable {
  readonly #offsets: Uint32Array;
  readonly #sizes: Uint32Array;
  readonly #crcs: Uint32Array;
  /** 1 for a slice in the same group as the previous one. */
  readonly #joined: Uint8Array;

  constructor(entries: readonly GroupedEntry[]) {
    const isSorted = entries.every(({ offset }, at) => offset > (entries[at - 1]?.offset ?? -1));
    const sorted = isSorted ? entries : [...entries].sort((a, b) => a.offset - b.offset);
    this.#offsets = Uint32Array.from(sorted, (entry) => entry.offset);
    this.#sizes = Uint32Array.from(sorted, (entry) => entry.size);
    this.#crcs = Uint32Array.from(sorted, (entry) => entry.crc32);
    this.#joined = Uint8Array.from(sorted, ({ group }, index) =>
      group !== undefined && group === sorted[index - 1]?.group ? 1 : 0,
    );
  }

  /**
   * Builds the table from a trunk's directory. Skips the names: building a table that is not in
   * memory is part of a request. Throws ProtocolError for damage.
   */
  static ofDirectory(directory: Buffer, end: TrunkEnd): SliceTable {
    const entries: GroupedEntry[] = [];
    scanTrunkDirectory(directory, end, (offset, size, crc32, _nameFrom, commentFrom, next) => {
      const comment = directory.subarray(commentFrom, next);
      const hasGroup = comment.includes(GROUP_KEY);
      const group = hasGroup ? groupOfComment(comment.toString('utf8')) : undefined;
      entries.push({ offset, size, crc32, group });
    });
    return new SliceTable(entries);
  }

  /** Memory used, in bytes. */
  get byteLength(): number {
    return this.#offsets.byteLength * 3 + this.#joined.byteLength;
  }

  has(entry: SliceEntry): boolean {
    const at = this.#find(entry.offset);
    return at !== -1 && this.#sizes[at] === entry.size && this.#crcs[at] === entry.crc32;
  }

  /**
   * The slice at `offset` and the adjacent members of its group, each within `maxBytes` of it; the
   * slice alone if it has no group. Undefined if no slice begins there.
   */
  groupAround(offset: number, maxBytes: number): SliceGroup | undefined {
    const at = this.#find(offset);
    if (at === -1) return undefined;
    let first = at;
    let last = at;
    while (this.#joined[first] === 1 && this.#isNear(first - 1, at, maxBytes)) first -= 1;
    while (this.#joined[last + 1] === 1 && this.#isNear(at, last + 1, maxBytes)) last += 1;
    const members: SliceEntry[] = [];
    for (let each = first; each <= last; each += 1) {
      members.push({
        offset: this.#offsets[each]!,
        size: this.#sizes[each]!,
        crc32: this.#crcs[each]!,
      });
    }
    return { members, asked: at - first };
  }

  #isNear(from: number, to: number, maxBytes: number): boolean {
    return this.#offsets[to]! + this.#sizes[to]! - this.#offsets[from]! <= maxBytes;
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

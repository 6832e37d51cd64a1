import type { SliceEntry } from '../slice-id.js';
import { scanTrunkDirectory, type TrunkEnd } from './archive.js';

/**
 * What a trunk's directory says about its slices, packed for keeping in memory:
 * 13 bytes a slice. Answers whether offset, size and CRC-32 of a slice id name
 * an entry; anything else is a forgery. Knows which slices lie side by side as
 * members of one affinity group.
 */

/** An entry with the name of its affinity group, if it has one. */
export interface GroupedEntry extends SliceEntry {
  readonly group?: string | undefined;
}

/** A slice among the members of its group, in the order of their offsets. */
export interface SliceGroup {
  readonly members: readonly SliceEntry[];
  /** Index of the slice that was asked about. */
  readonly asked: number;
}

const GROUP_KEY = Buffer.from('"group"');

/** The affinity group in an entry's comment; none if the comment is not one of ours. */
export function groupOfComment(comment: string): string | undefined {
  // Most files have none, and a search is cheaper than a parse.
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
  /** 1 for a slice of the same group as the one before it. */
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
   * The table of a trunk's directory, without its names: reading one that is not in
   * memory is part of a request. Damage is a ProtocolError.
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

  /** Memory held, in bytes. */
  get byteLength(): number {
    return this.#offsets.byteLength * 3 + this.#joined.byteLength;
  }

  has(entry: SliceEntry): boolean {
    const at = this.#find(entry.offset);
    return at !== -1 && this.#sizes[at] === entry.size && this.#crcs[at] === entry.crc32;
  }

  /**
   * The slice that begins at `offset` and the members of its group around it, each
   * within `maxBytes` of it; alone if it is in no group. Undefined if there is none.
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

import {
  decodeSizeField,
  extensionOf,
  formatFileId,
  groupOfComment,
  makeSliceId,
  ProtocolError,
  parseTrunkDirectory,
  parseTrunkEnd,
  type SliceId,
  SliceTable,
  sizeOfField,
  TAIL_BYTES,
  type TrunkEntry,
} from '@stevedore/protocol';
import type { FileRow } from '@stevedore/staging';
import { LRUCache } from 'lru-cache';
import type { Downloads } from './downloads.js';

/**
 * Directories of trunks that other stores wrote, read once from the trunks' tails and cached. They
 * decide whether a slice id is valid: its offset, size and CRC-32 must be those of an entry;
 * anything else is a forgery.
 */

interface Directory {
  readonly entries: ReadonlyMap<number, TrunkEntry>;
  readonly table: SliceTable;
  readonly bytes: number;
}

/** The members of a slice's group, in order of their offsets. */
interface EntryGroup {
  readonly members: readonly TrunkEntry[];
  /** Index of the requested slice. */
  readonly asked: number;
}

const MAX_KEPT_BYTES = 32 * 2 ** 20;
/** Memory of an entry in addition to its text. */
const ENTRY_BYTES = 166;

export class TrunkDirectories {
  readonly #downloads: Downloads;
  /** Concurrent questions share a load. */
  readonly #kept = new LRUCache<string, Directory, number>({
    maxSize: MAX_KEPT_BYTES,
    sizeCalculation: (directory) => directory.bytes + 1,
    fetchMethod: (fileId, _, { context }) => this.#load(fileId, context),
    // One that is evicted while it is loaded is given to those who wait.
    ignoreFetchAbort: true,
  });

  constructor(downloads: Downloads) {
    this.#downloads = downloads;
  }

  /** The entry that the slice id names; undefined if the trunk has no such entry. */
  async find(slice: SliceId): Promise<TrunkEntry | undefined> {
    const size = sizeOfField(decodeSizeField(slice.trunk.base));
    const directory = await this.#kept.fetch(formatFileId(slice.trunk), { context: size });
    const entry = directory?.entries.get(slice.offset);
    return entry?.size === slice.size && entry.crc32 === slice.crc32 ? entry : undefined;
  }

  /**
   * The members of the slice's group around it, each within `maxBytes` of it; undefined unless the
   * directory is cached.
   */
  groupAround(
    { trunk, offset }: Pick<SliceId, 'trunk' | 'offset'>,
    maxBytes: number,
  ): EntryGroup | undefined {
    const directory = this.#kept.get(formatFileId(trunk));
    const around = directory?.table.groupAround(offset, maxBytes);
    if (!directory || !around) return undefined;
    return {
      members: around.members.map((member) => directory.entries.get(member.offset)!),
      asked: around.asked,
    };
  }

  /** Ids of the trunk's slices; none unless its directory is cached. */
  *idsIn({ trunk }: SliceId): Generator<string, void, undefined> {
    const directory = this.#kept.get(formatFileId(trunk));
    for (const entry of directory?.entries.values() ?? []) {
      yield makeSliceId(trunk, entry, extensionInName(entry.name));
    }
  }

  async #load(fileId: string, size: number): Promise<Directory> {
    const tailBytes = Math.min(TAIL_BYTES, size);
    const tail = await this.#downloads.range(fileId, size - tailBytes, tailBytes);
    if (tail.length !== tailBytes) throw new ProtocolError(`the tail of ${fileId} is short`);
    const end = parseTrunkEnd(tail, size);
    const bytes = await this.#downloads.range(fileId, end.directoryOffset, end.directoryBytes);
    const entries = parseTrunkDirectory(bytes, end);
    return {
      entries: new Map(entries.map((entry) => [entry.offset, entry])),
      table: new SliceTable(
        entries.map((entry) => ({ ...entry, group: groupOfComment(entry.comment) })),
      ),
      bytes: bytes.length + entries.length * ENTRY_BYTES,
    };
  }
}

/** An entry's name is the key, a dot and the extension. */
const KEY_CHARS = 22;

export function keyInName(name: string): string {
  return name.slice(0, KEY_CHARS);
}

export function extensionInName(name: string): string {
  return name.slice(KEY_CHARS + 1);
}

/**
 * Finds out which slices of other stores' trunks are deleted. A trunk's directory does not record
 * deletions; Stevedore's storages do. A stock storage knows no slices: if a group also denies other
 * slices of the same trunk, it counts as stock for a while.
 */

const MAX_GROUPS = 1000;
const STOCK_MS = 600_000;
/** How long to trust a confirmation that a slice exists. */
const ALIVE_MS = 1000;
const MAX_ALIVE = 10_000;
/** Other slices to ask for before a group counts as stock. */
const PROBES = 3;

export class ForeignSlices {
  /** True if a storage has a slice with this id. */
  readonly #isThere: (sliceId: string) => Promise<boolean>;
  readonly #alive = new LRUCache<string, true>({ max: MAX_ALIVE, ttl: ALIVE_MS });
  readonly #stock = new LRUCache<string, true>({ max: MAX_GROUPS, ttl: STOCK_MS });

  constructor(isThere: (sliceId: string) => Promise<boolean>) {
    this.#isThere = isThere;
  }

  /** `others` are ids of slices in the same trunk. */
  async isDeleted(
    group: string,
    sliceId: string,
    others: () => Iterable<string>,
  ): Promise<boolean> {
    if (this.#stock.has(group) || this.#alive.has(sliceId)) return false;
    if (await this.#isThere(sliceId)) {
      this.#alive.set(sliceId, true);
      return false;
    }
    let probes = 0;
    for (const other of others()) {
      if (other === sliceId) continue;
      if (await this.#isThere(other)) return true;
      probes += 1;
      if (probes === PROBES) break;
    }
    this.#stock.set(group, true);
    return false;
  }

  forget(sliceId: string): void {
    this.#alive.delete(sliceId);
  }

  /** True if the group's storages are known not to support slices. */
  isStock(group: string): boolean {
    return this.#stock.has(group);
  }
}

/** True if the former slice id of a moved file names the same content and extension. */
export function isSameFile(row: FileRow, slice: SliceId): boolean {
  return (
    row.size === slice.size &&
    row.crc32 === slice.crc32 &&
    extensionOf(row.name) === slice.extension
  );
}

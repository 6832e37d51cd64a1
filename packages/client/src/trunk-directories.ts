import {
  decodeFields,
  formatFileId,
  groupOfComment,
  makeSliceId,
  ProtocolError,
  parseTrunkDirectory,
  parseTrunkEnd,
  type SliceEntry,
  type SliceId,
  SliceTable,
  sizeOfField,
  TAIL_BYTES,
  type TrunkEntry,
} from '@stevedore/protocol';
import { LRUCache } from 'lru-cache';

/**
 * Directories of trunks, read once from their tails and kept within a bound. They
 * decide whether a slice id is honoured: its offset, size and CRC-32 must be an
 * entry, anything else is a forgery.
 */
export type ReadTrunk = (fileId: string, offset: number, length: number) => Promise<Buffer>;

interface Directory {
  readonly entries: ReadonlyMap<number, TrunkEntry>;
  readonly table: SliceTable;
  readonly bytes: number;
}

/** A slice among the members of its group, in the order of their offsets. */
export interface EntryGroup {
  readonly members: readonly TrunkEntry[];
  /** Index of the slice that was asked about. */
  readonly asked: number;
}

const MAX_KEPT_BYTES = 32 * 2 ** 20;
/** What an entry costs in memory beside its texts. */
const ENTRY_BYTES = 166;

export class TrunkDirectories {
  readonly #read: ReadTrunk;
  readonly #kept = new LRUCache<string, Directory>({
    maxSize: MAX_KEPT_BYTES,
    sizeCalculation: (directory) => directory.bytes + 1,
  });
  readonly #loading = new Map<string, Promise<Directory>>();

  constructor(read: ReadTrunk) {
    this.#read = read;
  }

  /** The entry that the slice id names; undefined if the trunk has no such entry. */
  async find(slice: SliceId): Promise<TrunkEntry | undefined> {
    const directory = await this.#directory(slice);
    const entry = directory.entries.get(slice.offset);
    return entry && isSame(entry, slice) ? entry : undefined;
  }

  /** The members of the slice's group around it, each within `maxBytes` of it, if they are known. */
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

  /** Ids of the trunk's slices, as far as its directory is known. */
  *idsIn({ trunk }: SliceId): Generator<string, void, undefined> {
    const directory = this.#kept.get(formatFileId(trunk));
    for (const entry of directory?.entries.values() ?? []) {
      yield makeSliceId(trunk, entry, extensionInName(entry.name));
    }
  }

  async #directory({ trunk }: SliceId): Promise<Directory> {
    const fileId = formatFileId(trunk);
    const kept = this.#kept.get(fileId);
    if (kept) return kept;
    const underWay = this.#loading.get(fileId);
    if (underWay) return underWay;
    const size = sizeOfField(decodeFields(trunk.base).sizeField);
    const loading = this.#load(fileId, size).finally(() => this.#loading.delete(fileId));
    this.#loading.set(fileId, loading);
    const directory = await loading;
    this.#kept.set(fileId, directory);
    return directory;
  }

  async #load(fileId: string, size: number): Promise<Directory> {
    const tailBytes = Math.min(TAIL_BYTES, size);
    const tail = await this.#read(fileId, size - tailBytes, tailBytes);
    if (tail.length !== tailBytes) throw new ProtocolError(`the tail of ${fileId} is short`);
    const end = parseTrunkEnd(tail, size);
    const bytes = await this.#read(fileId, end.directoryOffset, end.directoryBytes);
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

/** Entries of a trunk are named by key, a dot and the extension. */
const KEY_CHARS = 22;

export function keyInName(name: string): string {
  return name.slice(0, KEY_CHARS);
}

export function extensionInName(name: string): string {
  return name.slice(KEY_CHARS + 1);
}

function isSame(entry: SliceEntry, slice: SliceEntry): boolean {
  return entry.size === slice.size && entry.crc32 === slice.crc32;
}

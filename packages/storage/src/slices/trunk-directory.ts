import {
  ProtocolError,
  parseTrunkEnd,
  type SliceEntry,
  type SliceGroup,
  SliceTable,
  TAIL_BYTES,
} from '@stevedore/protocol';
import type { OpenFile } from '../files/open-files.js';

/** What a storage keeps in memory of a trunk: its slices and which of them are deleted. */
export class TrunkDirectory {
  readonly #table: SliceTable;
  /** Offsets; two slices of one trunk never share theirs. */
  readonly #deleted: Set<number>;

  constructor(table: SliceTable, deleted: Iterable<number>) {
    this.#table = table;
    this.#deleted = new Set(deleted);
  }

  /** Memory held, about. */
  get byteLength(): number {
    return 512 + this.#table.byteLength + this.#deleted.size * 40;
  }

  /** True only for an entry of the trunk that has not been deleted. */
  holds(slice: SliceEntry): boolean {
    return this.#table.has(slice) && !this.#deleted.has(slice.offset);
  }

  /** The slice that these bytes of the trunk are, if they are one that is not deleted. */
  sliceAt(offset: number, size: number): SliceEntry | undefined {
    const slice = this.#table.groupAround(offset, 0)?.members[0];
    return slice?.size === size && this.holds(slice) ? slice : undefined;
  }

  /** The slice and its affinity group around it, deleted ones among them. */
  groupAround(offset: number, maxBytes: number): SliceGroup | undefined {
    return this.#table.groupAround(offset, maxBytes);
  }

  markDeleted(slice: SliceEntry): void {
    this.#deleted.add(slice.offset);
  }
}

/**
 * The table of the trunk's slices. A file that is no trunk, whatever its name
 * says, has none; so has one whose directory is longer than `maxDirectoryBytes`.
 */
export async function readSliceTable(
  trunk: OpenFile,
  maxDirectoryBytes: number,
): Promise<SliceTable> {
  const { size } = trunk.stat;
  const tail = await readPart(trunk, Math.max(size - TAIL_BYTES, 0), Math.min(size, TAIL_BYTES));
  try {
    const end = parseTrunkEnd(tail, size);
    if (end.directoryBytes > maxDirectoryBytes) return new SliceTable([]);
    const directory = await readPart(trunk, end.directoryOffset, end.directoryBytes);
    return SliceTable.ofDirectory(directory, end);
  } catch (error) {
    if (error instanceof ProtocolError) return new SliceTable([]);
    throw error;
  }
}

async function readPart(trunk: OpenFile, position: number, bytes: number): Promise<Buffer> {
  const part = Buffer.allocUnsafe(bytes);
  const read = await trunk.file.readAt(part, position);
  return part.subarray(0, read);
}

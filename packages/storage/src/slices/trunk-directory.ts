import { crc32 } from 'node:zlib';
import {
  ProtocolError,
  parseTrunkEnd,
  type SliceEntry,
  type SliceGroup,
  SliceTable,
  TAIL_BYTES,
} from '@stevedore/protocol';
import type { OpenFile } from '../files/open-files.js';

/** The slices of a trunk, in memory, and which of them are deleted. */
export class TrunkDirectory {
  readonly #table: SliceTable;
  /** Offsets; two slices of one trunk never share theirs. */
  readonly #deleted: Set<number>;

  constructor(table: SliceTable, deleted: Set<number>) {
    this.#table = table;
    this.#deleted = deleted;
  }

  /** Approximate memory use. */
  get byteLength(): number {
    return 512 + this.#table.byteLength + this.#deleted.size * 40;
  }

  /** True only for an entry of the trunk that has not been deleted. */
  holds(slice: SliceEntry): boolean {
    return this.#table.has(slice) && !this.#deleted.has(slice.offset);
  }

  /** The slice and its affinity group around it, including deleted ones. */
  groupAround(offset: number, maxBytes: number): SliceGroup | undefined {
    return this.#table.groupAround(offset, maxBytes);
  }

  markDeleted(slice: SliceEntry): void {
    this.#deleted.add(slice.offset);
  }
}

/** Longest accepted directory of a trunk. */
const MAX_DIRECTORY_BYTES = 32 * 2 ** 20;

/** Reads the table of the trunk's slices; empty for a file that is not a trunk we could have made. */
export async function readSliceTable(trunk: OpenFile): Promise<SliceTable> {
  const { size } = trunk.stat;
  const tail = await readPart(trunk, Math.max(size - TAIL_BYTES, 0), Math.min(size, TAIL_BYTES));
  try {
    const end = parseTrunkEnd(tail, size);
    if (end.directoryBytes > MAX_DIRECTORY_BYTES) return new SliceTable([]);
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

/**
 * The record of a deleted slice, encoded and decoded; FORMAT.md has the table.
 */

const RECORD_BYTES = 24;
/** `SVDL` */
const MAGIC = 0x5356444c;
const CHECKED_BYTES = 20;

export interface DeletedSlice extends SliceEntry {
  /** Unix seconds. */
  readonly deletedAtSeconds: number;
}

export function encodeDeletedSlice(slice: DeletedSlice): Buffer {
  const record = Buffer.alloc(RECORD_BYTES);
  record.writeUInt32BE(MAGIC, 0);
  record.writeUInt32BE(slice.offset, 4);
  record.writeUInt32BE(slice.size, 8);
  record.writeUInt32BE(slice.crc32, 12);
  record.writeUInt32BE(slice.deletedAtSeconds >>> 0, 16);
  record.writeUInt32BE(crc32(record.subarray(0, CHECKED_BYTES)), CHECKED_BYTES);
  return record;
}

export interface DeletedSlices {
  readonly slices: readonly DeletedSlice[];
  /** Number of complete records with a wrong magic or CRC-32. */
  readonly damaged: number;
}

/** Decodes a whole list; ignores an incomplete record at its end. */
export function decodeDeletedSlices(bytes: Buffer): DeletedSlices {
  const slices: DeletedSlice[] = [];
  let damaged = 0;
  for (let at = 0; at + RECORD_BYTES <= bytes.length; at += RECORD_BYTES) {
    const record = bytes.subarray(at, at + RECORD_BYTES);
    if (
      record.readUInt32BE(0) !== MAGIC ||
      record.readUInt32BE(CHECKED_BYTES) !== crc32(record.subarray(0, CHECKED_BYTES))
    ) {
      damaged += 1;
      continue;
    }
    slices.push({
      offset: record.readUInt32BE(4),
      size: record.readUInt32BE(8),
      crc32: record.readUInt32BE(12),
      deletedAtSeconds: record.readUInt32BE(16),
    });
  }
  return { slices, damaged };
}

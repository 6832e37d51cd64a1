import { crc32 } from 'node:zlib';
import type { SliceEntry } from '@stevedore/protocol';

/**
 * Record of a deleted slice, 24 bytes, big-endian; FORMAT.md has the table.
 * Writer and reader share this file.
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
  /** Whole records that are not what was written. */
  readonly damaged: number;
  /** Where the next record belongs: behind the last whole one. */
  readonly endOffset: number;
}

/** Reads a whole list; an incomplete record at its end does not count. */
export function decodeDeletedSlices(bytes: Buffer): DeletedSlices {
  const slices: DeletedSlice[] = [];
  let damaged = 0;
  const endOffset = bytes.length - (bytes.length % RECORD_BYTES);
  for (let at = 0; at < endOffset; at += RECORD_BYTES) {
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
  return { slices, damaged, endOffset };
}

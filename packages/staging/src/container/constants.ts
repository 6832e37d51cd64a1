/** Numbers of the container format; FORMAT.md beside this package has the layouts. */

/** Stands for a segment where a file's bytes were lost: no segment has the number. */
export const LOST_SEGMENT = 2 ** 40;

export const SEGMENT_MAGIC = Buffer.from('STVDSEG1', 'latin1');
export const SEGMENT_HEADER_BYTES = 32;
export const RECORD_MAGIC = 0x31525653; // "SVR1", little-endian
export const RECORD_HEADER_BYTES = 60;
export const KEY_BYTES = 16;
export const MAX_META_BYTES = 0xffff;

export const RecordType = {
  file: 1,
  spooledFile: 2,
  deletion: 3,
  plan: 4,
  stored: 5,
  movedFile: 6,
  retired: 7,
} as const;
export type RecordTypeNumber = (typeof RecordType)[keyof typeof RecordType];

/** A new segment is begun once the current one is at least this long. */
export const SEGMENT_BYTES = 64 * 2 ** 20;
/** Bounds of one group commit: what one write carries at the most. */
export const BATCH_BYTES = 8 * 2 ** 20;
export const BATCH_RECORDS = 256;
/** Less than this is not worth a write of its own while more is coming. */
export const MIN_HALF_BYTES = 192 * 1024;

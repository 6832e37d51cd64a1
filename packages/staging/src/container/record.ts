import { crc32 } from 'node:zlib';

/**
 * Encodes and decodes segment headers and record headers. FORMAT.md of this package describes the
 * layouts.
 */

/** Segment number of a file whose bytes were lost. No segment has this number. */
export const LOST_SEGMENT = 2 ** 40;

const SEGMENT_MAGIC = Buffer.from('STVDSEG1', 'latin1');
export const SEGMENT_HEADER_BYTES = 32;
const RECORD_MAGIC = 0x31525653; // "SVR1", little-endian
export const RECORD_HEADER_BYTES = 60;
export const KEY_BYTES = 16;
const MAX_META_BYTES = 0xffff;

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

/** A new segment begins once the current one is at least this long. */
export const SEGMENT_BYTES = 64 * 2 ** 20;
/** Limits of one group commit, which is one write. */
export const BATCH_BYTES = 8 * 2 ** 20;
export const BATCH_RECORDS = 256;
/** A smaller batch is not worth a write while more is arriving. */
export const MIN_HALF_BYTES = 192 * 1024;

const TYPES: ReadonlySet<number> = new Set(Object.values(RecordType));

export interface SegmentHeader {
  readonly segment: number;
  readonly origin: number;
  /** Unix milliseconds. */
  readonly begunAt: number;
  /** Valid bytes of the previous segment, which is closed; 0 if there is none. */
  readonly previousBytes: number;
}

export interface RecordHeader {
  readonly type: RecordTypeNumber;
  /** Key of the file, or task id. */
  readonly key: Buffer;
  readonly metaBytes: number;
  /** Bytes of body in the record. */
  readonly bodyBytes: number;
  /** Bytes of the file; of the trunk in `plan`, `stored` and `retired`. */
  readonly size: number;
  /** Unix milliseconds. */
  readonly time: number;
  /** CRC-32 of the file; of the trunk in `stored` and `retired`, else of the body. */
  readonly crc32: number;
}

/** What the header of a record to write says. */
export type RecordFacts = Omit<RecordHeader, 'metaBytes'>;

/** A record to write, other than that of a new file: meta block and body follow the header. */
export interface NewRecord extends RecordFacts {
  readonly meta: object;
  readonly body: readonly Uint8Array[];
}

export function encodeSegmentHeader(header: SegmentHeader): Buffer {
  const bytes = Buffer.alloc(SEGMENT_HEADER_BYTES);
  SEGMENT_MAGIC.copy(bytes);
  bytes.writeUInt32LE(header.segment, 8);
  bytes.writeUInt16LE(header.origin, 12);
  bytes.writeBigUInt64LE(BigInt(header.begunAt), 16);
  bytes.writeUInt32LE(header.previousBytes, 24);
  bytes.writeUInt32LE(crc32(bytes.subarray(0, 28)), 28);
  return bytes;
}

/** Undefined if the bytes are not an intact header. */
export function decodeSegmentHeader(bytes: Buffer): SegmentHeader | undefined {
  if (bytes.length < SEGMENT_HEADER_BYTES || !bytes.subarray(0, 8).equals(SEGMENT_MAGIC)) {
    return undefined;
  }
  if (bytes.readUInt32LE(28) !== crc32(bytes.subarray(0, 28))) return undefined;
  return {
    segment: bytes.readUInt32LE(8),
    origin: bytes.readUInt16LE(12),
    begunAt: Number(bytes.readBigUInt64LE(16)),
    previousBytes: bytes.readUInt32LE(24),
  };
}

/** At most this many bytes are a record's header and meta block of this text. */
export function mostHeadBytes(meta: string): number {
  return RECORD_HEADER_BYTES + 3 * meta.length;
}

/**
 * Writes header and meta block of a record; the body follows in the segment. Returns their bytes.
 * `target` has `mostHeadBytes` from `at` on.
 */
export function writeRecordHead(
  target: Buffer,
  at: number,
  record: RecordFacts,
  meta: string,
  segment: number,
): number {
  const metaBytes = target.write(meta, at + RECORD_HEADER_BYTES);
  if (metaBytes > MAX_META_BYTES) throw new RangeError(`a meta block of ${metaBytes} bytes`);
  target.writeUInt32LE(RECORD_MAGIC, at);
  target.writeUInt16LE(record.type, at + 4);
  target.writeUInt16LE(metaBytes, at + 6);
  target.set(record.key, at + 8);
  writeU64(target, record.bodyBytes, at + 24);
  writeU64(target, record.size, at + 32);
  writeU64(target, record.time, at + 40);
  target.writeUInt32LE(record.crc32, at + 48);
  target.writeUInt32LE(segment, at + 52);
  const bytes = RECORD_HEADER_BYTES + metaBytes;
  target.writeUInt32LE(headCrc(target.subarray(at, at + bytes)), at + 56);
  return bytes;
}

/** Decodes the header without checking its CRC-32; undefined if it cannot be one. */
export function decodeRecordHeader(bytes: Buffer, segment: number): RecordHeader | undefined {
  if (bytes.length < RECORD_HEADER_BYTES || bytes.readUInt32LE(0) !== RECORD_MAGIC)
    return undefined;
  const type = bytes.readUInt16LE(4);
  if (!TYPES.has(type)) return undefined;
  if (bytes.readUInt32LE(52) !== segment) return undefined;
  return {
    type: type as RecordTypeNumber,
    metaBytes: bytes.readUInt16LE(6),
    key: Buffer.from(bytes.subarray(8, 8 + KEY_BYTES)),
    bodyBytes: readU64(bytes, 24),
    size: readU64(bytes, 32),
    time: readU64(bytes, 40),
    crc32: bytes.readUInt32LE(48),
  };
}

/** True if header and meta block are what was written. */
export function isRecordHeadIntact(head: Buffer): boolean {
  return head.readUInt32LE(56) === headCrc(head);
}

function headCrc(head: Buffer): number {
  return crc32(head.subarray(RECORD_HEADER_BYTES), crc32(head.subarray(0, 56)));
}

function writeU64(bytes: Buffer, value: number, at: number): void {
  bytes.writeUInt32LE(value % 2 ** 32, at);
  bytes.writeUInt32LE(Math.floor(value / 2 ** 32), at + 4);
}

function readU64(bytes: Buffer, at: number): number {
  return bytes.readUInt32LE(at) + bytes.readUInt32LE(at + 4) * 2 ** 32;
}

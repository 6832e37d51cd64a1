import { crc32 } from 'node:zlib';

/**
 * The bytes of an `.info` file: what an unfinished upload will become, and how much of it is
 * durable. Two marks are written alternately, so that a torn write leaves the other intact.
 * FORMAT.md has the layout.
 */

/** What is known of an upload from its start. */
export interface UnfinishedAbout {
  readonly name: string;
  readonly type: string;
  readonly group?: string | undefined;
  /** Idempotency mark of the finished file; see `FileMeta.once`. */
  readonly once?: string | undefined;
  /** Lifetime of the finished file; absent: for ever. */
  readonly ttlMs?: number | undefined;
  /** The client whose share of the unfinished uploads it uses. */
  readonly owner?: string | undefined;
  /** Unix milliseconds. */
  readonly createdAt: number;
  /** Text of the caller, stored and returned unchanged. */
  readonly note: string;
}

export interface Mark {
  /** Sequence number; the intact mark with the highest one is valid. */
  readonly turn: number;
  readonly durableBytes: number;
  /** Bytes of the whole file, once they are known. */
  readonly sizeBytes: number | undefined;
}

const MARK_BYTES = 32;
const MARKS_BYTES = 2 * MARK_BYTES;
const CRC_AT = 24;
const UNKNOWN_SIZE = 2n ** 64n - 1n;
export const MAX_INFO_BYTES = 64 * 1024;

export function markPosition({ turn }: Mark): number {
  return (turn % 2) * MARK_BYTES;
}

export function packMark({ turn, durableBytes, sizeBytes }: Mark): Buffer {
  const bytes = Buffer.alloc(MARK_BYTES);
  bytes.writeBigUInt64LE(BigInt(turn), 0);
  bytes.writeBigUInt64LE(BigInt(durableBytes), 8);
  bytes.writeBigUInt64LE(sizeBytes === undefined ? UNKNOWN_SIZE : BigInt(sizeBytes), 16);
  bytes.writeUInt32LE(crc32(bytes.subarray(0, CRC_AT)), CRC_AT);
  return bytes;
}

export function packInfo(about: UnfinishedAbout, mark: Mark): Buffer {
  const text = Buffer.from(JSON.stringify(about));
  const bytes = Buffer.alloc(MARKS_BYTES + 4 + text.length);
  packMark(mark).copy(bytes, markPosition(mark));
  bytes.writeUInt32LE(crc32(text), MARKS_BYTES);
  text.copy(bytes, MARKS_BYTES + 4);
  return bytes;
}

/** Undefined if neither mark is intact or the text is damaged. */
export function unpackInfo(
  bytes: Buffer,
): { readonly about: UnfinishedAbout; readonly mark: Mark } | undefined {
  if (bytes.length < MARKS_BYTES + 4) return undefined;
  const marks = [unpackMark(bytes, 0), unpackMark(bytes, MARK_BYTES)].filter((mark) => !!mark);
  const [mark] = marks.sort((a, b) => b.turn - a.turn);
  const text = bytes.subarray(MARKS_BYTES + 4);
  if (!mark || crc32(text) !== bytes.readUInt32LE(MARKS_BYTES)) return undefined;
  return { about: JSON.parse(text.toString()) as UnfinishedAbout, mark };
}

function unpackMark(info: Buffer, at: number): Mark | undefined {
  const bytes = info.subarray(at, at + MARK_BYTES);
  const turn = Number(bytes.readBigUInt64LE(0));
  if (turn === 0 || crc32(bytes.subarray(0, CRC_AT)) !== bytes.readUInt32LE(CRC_AT)) {
    return undefined;
  }
  const size = bytes.readBigUInt64LE(16);
  return {
    turn,
    durableBytes: Number(bytes.readBigUInt64LE(8)),
    sizeBytes: size === UNKNOWN_SIZE ? undefined : Number(size),
  };
}

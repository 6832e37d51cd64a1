import { crc32 } from 'node:zlib';

/**
 * Records of the change journal, encoded and decoded; FORMAT.md has the tables. Paths are
 * relative to the data directory, with forward slashes.
 */

export type JournalChange =
  /** Write the body, or the file `piece` in `.tmp`, at `offset`; then set the size to `size`. */
  | {
      readonly what: 'write';
      readonly path: string;
      readonly offset: number;
      readonly size: number;
      readonly piece?: string | undefined;
    }
  /**
   * `bytes` are added behind `offset`. The journal does not have them: after a crash they are kept if
   * their CRC-32 is this one, and cut off if not.
   */
  | {
      readonly what: 'append';
      readonly path: string;
      readonly offset: number;
      readonly bytes: number;
      readonly crc32: number;
    }
  /** Rename the file and its metadata. */
  | { readonly what: 'move'; readonly path: string; readonly to: string }
  /** Remove the file and its companions. */
  | { readonly what: 'remove'; readonly path: string }
  /** Earlier records of this file are void. */
  | { readonly what: 'settled'; readonly path: string };

export interface JournalRecord {
  readonly sequence: number;
  readonly change: JournalChange;
  readonly body: Buffer;
}

/** Magic, CRC-32 of everything after it, record number, bytes of the text, bytes of the body. */
const RECORD_HEAD_BYTES = 24;
/** `SVCJ` */
const MAGIC = 0x5356434a;
const CHECKED_FROM = 8;

export function encodeRecord(
  sequence: number,
  change: JournalChange,
  body: readonly Buffer[],
): Buffer[] {
  const text = Buffer.from(JSON.stringify(change));
  const head = Buffer.alloc(RECORD_HEAD_BYTES);
  head.writeUInt32BE(MAGIC, 0);
  head.writeBigUInt64BE(BigInt(sequence), 8);
  head.writeUInt32BE(text.length, 16);
  head.writeUInt32BE(
    body.reduce((sum, chunk) => sum + chunk.length, 0),
    20,
  );
  let crc = crc32(text, crc32(head.subarray(CHECKED_FROM)));
  for (const chunk of body) crc = crc32(chunk, crc);
  head.writeUInt32BE(crc, 4);
  return [head, text, ...body];
}

/** Yields records up to the first damaged or out of order; what follows was never answered. */
export function* decodeRecords(bytes: Buffer): Generator<JournalRecord> {
  let last = -1;
  for (let at = 0; at + RECORD_HEAD_BYTES <= bytes.length; ) {
    const head = bytes.subarray(at, at + RECORD_HEAD_BYTES);
    const textEnd = at + RECORD_HEAD_BYTES + head.readUInt32BE(16);
    const end = textEnd + head.readUInt32BE(20);
    const sequence = Number(head.readBigUInt64BE(8));
    if (head.readUInt32BE(0) !== MAGIC || end > bytes.length || sequence <= last) return;
    if (crc32(bytes.subarray(at + CHECKED_FROM, end)) !== head.readUInt32BE(4)) return;
    const text = bytes.toString('utf8', at + RECORD_HEAD_BYTES, textEnd);
    const change = JSON.parse(text) as JournalChange;
    yield { sequence, change, body: bytes.subarray(textEnd, end) };
    last = sequence;
    at = end;
  }
}

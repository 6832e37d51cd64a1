import { crc32 } from 'node:zlib';
import { isMediumFailure } from '@stevedore/disk';
import { isBlockListOf } from './block-checksums.js';
import {
  decodeRecordHeader,
  isRecordHeadIntact,
  RECORD_HEADER_BYTES,
  type RecordHeader,
  RecordType,
  SEGMENT_HEADER_BYTES,
} from './record.js';
import { CHUNK_BYTES, type Segment, Unreadable } from './segment.js';

/** Scans the records of a segment at start. */

/** A record found in a segment, with the positions of its parts. */
export interface FoundRecord {
  readonly header: RecordHeader;
  readonly meta: Readonly<Record<string, unknown>>;
  /** Where the body begins in the segment. */
  readonly bodyPosition: number;
  /** Where the next record begins. */
  readonly end: number;
  /** The body of a record that is not a file; undefined if it is damaged. */
  readonly body: Buffer | undefined;
  /** False if the body is damaged. */
  readonly isSound: boolean;
}

const READ_AHEAD_BYTES = 2 ** 18;
/** Enough for most headers with their meta block. */
const HEAD_BYTES = 1024;

/**
 * Yields the intact records from `from` on and stops at the first that is not intact: nothing after
 * it was acknowledged. Every body is checked against its CRC-32. Within the bytes known to be
 * acknowledged, a body that does not match has rotted, and the scan continues after it; after a
 * rotten header it cannot, because the record's length is unknown. A body that the disk cannot read
 * counts as rotten there, and is Unreadable elsewhere.
 */
export async function* scanSegment(
  segment: Segment,
  from: number,
  acknowledgedBytes = 0,
): AsyncGenerator<FoundRecord> {
  const limit = segment.bytes;
  const read = readAhead(segment);
  let at = from;
  if (at < SEGMENT_HEADER_BYTES) {
    if (!(await segment.header())) return;
    at = SEGMENT_HEADER_BYTES;
  }
  while (at + RECORD_HEADER_BYTES <= limit) {
    const head = await readHead(read, at, limit);
    const found = await readRecord(segment, read, at, head, { limit, acknowledgedBytes });
    if (!found || !(found.isSound || found.end <= acknowledgedBytes)) return;
    yield found;
    at = found.end;
  }
}

type Read = (position: number, count: number) => Promise<Buffer>;

/** Reads the start of a record; if the disk cannot read that many bytes, only its header. */
async function readHead(read: Read, at: number, limit: number): Promise<Buffer> {
  try {
    return await read(at, Math.min(HEAD_BYTES, limit - at));
  } catch (error) {
    if (error instanceof Unreadable) return read(at, RECORD_HEADER_BYTES);
    throw error;
  }
}

/** Reads ahead, because records are small. */
function readAhead(segment: Segment): Read {
  let start = 0;
  let ahead: Buffer = Buffer.alloc(0);
  return async (position, count) => {
    if (count > READ_AHEAD_BYTES) return segment.readFirmly(position, count);
    if (position < start || position + count > start + ahead.length) {
      try {
        ahead = await segment.read(position, Math.max(count, READ_AHEAD_BYTES));
      } catch (error) {
        if (!isMediumFailure(error)) throw error;
        return segment.readFirmly(position, count);
      }
      start = position;
    }
    return ahead.subarray(position - start, position - start + count);
  };
}

async function readRecord(
  segment: Segment,
  read: Read,
  at: number,
  start: Buffer,
  { limit, acknowledgedBytes }: { readonly limit: number; readonly acknowledgedBytes: number },
): Promise<FoundRecord | undefined> {
  const header = decodeRecordHeader(start, segment.number);
  if (!header) return undefined;
  const headBytes = RECORD_HEADER_BYTES + header.metaBytes;
  const bodyPosition = at + headBytes;
  const end = bodyPosition + header.bodyBytes;
  if (end > limit) return undefined;
  const head = start.length >= headBytes ? start.subarray(0, headBytes) : await read(at, headBytes);
  if (!isRecordHeadIntact(head)) return undefined;
  const isFile = header.type === RecordType.file || header.type === RecordType.movedFile;
  let body: Buffer | undefined;
  let crc = -1;
  try {
    if (!isFile) body = await read(bodyPosition, header.bodyBytes);
    crc = body ? crc32(body) : await crcOf(read, bodyPosition, header.bodyBytes);
  } catch (error) {
    // Other records of unknown status may follow, so they are not skipped.
    if (!(error instanceof Unreadable) || end > acknowledgedBytes) throw error;
  }
  // The CRC-32 of a large file or a stored trunk covers bytes that are elsewhere; the body, if
  // there is one, is the list of block checksums.
  const isList = header.type === RecordType.spooledFile || header.type === RecordType.stored;
  const isSound =
    header.bodyBytes === 0 ||
    crc === header.crc32 ||
    (isList && body !== undefined && isBlockListOf(body, header));
  const meta = JSON.parse(head.toString('utf8', RECORD_HEADER_BYTES)) as Record<string, unknown>;
  return { header, meta, bodyPosition, end, body: isSound ? body : undefined, isSound };
}

async function crcOf(read: Read, position: number, count: number): Promise<number> {
  let value = 0;
  for (let done = 0; done < count; ) {
    const chunk = await read(position + done, Math.min(CHUNK_BYTES, count - done));
    if (chunk.length === 0) return -1;
    value = crc32(chunk, value);
    done += chunk.length;
  }
  return value;
}

import {
  encodeEnd,
  localHeaderBytes,
  MAX_ENTRIES,
  mostEntryBytes,
  writeDirectoryEntry,
  writeLocalHeader,
} from '@stevedore/protocol';

/**
 * A ZIP of files as they are, written while they are read: APPNOTE 6.3.x with entries that are
 * stored. Sizes and checksums stand ahead of the bytes, so that the archive can be read as it
 * arrives, too. Longer files and archives than 4 GiB have the fields of ZIP64.
 */

export interface ZipEntry {
  readonly name: string;
  readonly size: number;
  readonly crc32: number;
  readonly modifiedAt: Date;
  readonly content: Buffer | AsyncIterable<Buffer>;
}

const ZIP64_END = 0x06064b50;
const ZIP64_LOCATOR = 0x07064b50;
const ZIP64_VERSION = 45;
const MADE_BY = (3 << 8) | ZIP64_VERSION;
const MAX_32 = 0xffff_ffff;

/** Rejects if a file has other than its number of bytes. */
export async function* zipOf(
  entries: AsyncIterable<ZipEntry>,
): AsyncGenerator<Buffer, void, undefined> {
  const directory: Buffer[] = [];
  let offset = 0;
  for await (const entry of entries) {
    const head = localHeader(entry);
    directory.push(directoryEntry(entry, offset));
    yield head;
    offset += head.length + entry.size;
    let left = entry.size;
    const { content } = entry;
    for await (const chunk of Buffer.isBuffer(content) ? [content] : content) {
      left -= chunk.length;
      if (left < 0) break;
      yield chunk;
    }
    if (left !== 0) throw new Error(`${entry.name} has another size than ${entry.size}`);
  }
  for (const each of directory) yield each;
  const bytes = directory.reduce((sum, { length }) => sum + length, 0);
  yield end(directory.length, bytes, offset);
}

/** The largest number that a field has means that the number is in that of ZIP64. */
const field32 = (value: number): number => Math.min(value, MAX_32);

function localHeader(entry: ZipEntry): Buffer {
  const { size } = entry;
  const head = Buffer.alloc(localHeaderBytes(Buffer.byteLength(entry.name)));
  writeLocalHeader(head, 0, { ...entry, size: field32(size) });
  return withExtra(head, 4, 28, entry, size >= MAX_32 ? [size, size] : []);
}

function directoryEntry(entry: ZipEntry, offset: number): Buffer {
  const { size } = entry;
  const member = { ...entry, size: field32(size), comment: '' };
  const head = Buffer.alloc(mostEntryBytes(member));
  const bytes = writeDirectoryEntry(head, 0, member, field32(offset));
  const long = [...(size >= MAX_32 ? [size, size] : []), ...(offset >= MAX_32 ? [offset] : [])];
  return withExtra(head.subarray(0, bytes), 6, 30, entry, long);
}

/**
 * The head with extra fields: the time, which readers else take for one of their own zone, and
 * numbers of ZIP64. `versionAt` and `lengthAt` are places in the head.
 */
function withExtra(
  head: Buffer,
  versionAt: number,
  lengthAt: number,
  { modifiedAt }: ZipEntry,
  long: readonly number[],
): Buffer {
  const extra = Buffer.alloc(9 + (long.length > 0 ? 4 + 8 * long.length : 0));
  extra.write('UT');
  extra.writeUInt16LE(5, 2);
  // Of the three times, that of the last change.
  extra.writeUInt8(1, 4);
  extra.writeUInt32LE(Math.max(0, Math.floor(modifiedAt.getTime() / 1000)) % 2 ** 32, 5);
  if (long.length > 0) {
    head.writeUInt16LE(ZIP64_VERSION, versionAt);
    extra.writeUInt16LE(1, 9);
    extra.writeUInt16LE(8 * long.length, 11);
    for (const [at, number] of long.entries()) extra.writeBigUInt64LE(BigInt(number), 13 + 8 * at);
  }
  head.writeUInt16LE(extra.length, lengthAt);
  return Buffer.concat([head, extra]);
}

function end(entries: number, directoryBytes: number, directoryOffset: number): Buffer {
  if (entries <= MAX_ENTRIES && directoryOffset + directoryBytes < MAX_32) {
    return encodeEnd(entries, directoryOffset, directoryBytes, '');
  }
  const record = encodeEnd(0, 0, 0, '').fill(0xff, 8, 20);
  const long = Buffer.alloc(56);
  long.writeUInt32LE(ZIP64_END, 0);
  long.writeBigUInt64LE(44n, 4);
  long.writeUInt16LE(MADE_BY, 12);
  long.writeUInt16LE(ZIP64_VERSION, 14);
  long.writeBigUInt64LE(BigInt(entries), 24);
  long.writeBigUInt64LE(BigInt(entries), 32);
  long.writeBigUInt64LE(BigInt(directoryBytes), 40);
  long.writeBigUInt64LE(BigInt(directoryOffset), 48);
  const locator = Buffer.alloc(20);
  locator.writeUInt32LE(ZIP64_LOCATOR, 0);
  locator.writeBigUInt64LE(BigInt(directoryOffset + directoryBytes), 8);
  locator.writeUInt32LE(1, 16);
  return Buffer.concat([long, locator, record]);
}

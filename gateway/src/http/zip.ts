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

const LOCAL_HEADER = 0x04034b50;
const DIRECTORY_ENTRY = 0x02014b50;
const END = 0x06054b50;
const ZIP64_END = 0x06064b50;
const ZIP64_LOCATOR = 0x07064b50;
/** Host system 3 (unix), so that the mode below counts. */
const MADE_BY = 3 << 8;
const VERSION = 20;
const ZIP64_VERSION = 45;
/** Names are UTF-8. */
const FLAGS = 1 << 11;
/** Regular file, rw-r--r--. */
const ATTRIBUTES = (0o100644 << 16) >>> 0;
const MAX_16 = 0xffff;
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
  const name = Buffer.from(entry.name);
  const isLong = entry.size >= MAX_32;
  const extra = [utcTime(entry), ...(isLong ? [zip64([entry.size, entry.size])] : [])];
  const head = Buffer.alloc(30);
  head.writeUInt32LE(LOCAL_HEADER, 0);
  head.writeUInt16LE(isLong ? ZIP64_VERSION : VERSION, 4);
  writeCommon(head, 6, entry, name, extra);
  return Buffer.concat([head, name, ...extra]);
}

function directoryEntry(entry: ZipEntry, offset: number): Buffer {
  const name = Buffer.from(entry.name);
  const long = [
    ...(entry.size >= MAX_32 ? [entry.size, entry.size] : []),
    ...(offset >= MAX_32 ? [offset] : []),
  ];
  const extra = [utcTime(entry), ...(long.length > 0 ? [zip64(long)] : [])];
  const head = Buffer.alloc(46);
  const version = long.length > 0 ? ZIP64_VERSION : VERSION;
  head.writeUInt32LE(DIRECTORY_ENTRY, 0);
  head.writeUInt16LE(MADE_BY | version, 4);
  head.writeUInt16LE(version, 6);
  writeCommon(head, 8, entry, name, extra);
  head.writeUInt32LE(ATTRIBUTES, 38);
  head.writeUInt32LE(field32(offset), 42);
  return Buffer.concat([head, name, ...extra]);
}

/** Flags, method, time, CRC-32, both sizes, lengths of name and extra fields. */
function writeCommon(
  head: Buffer,
  at: number,
  { size, crc32, modifiedAt }: ZipEntry,
  name: Buffer,
  extra: readonly Buffer[],
): void {
  const year = Math.min(Math.max(modifiedAt.getUTCFullYear(), 1980), 2107);
  const time =
    (modifiedAt.getUTCHours() << 11) |
    (modifiedAt.getUTCMinutes() << 5) |
    (modifiedAt.getUTCSeconds() >> 1);
  const date =
    ((year - 1980) << 9) | ((modifiedAt.getUTCMonth() + 1) << 5) | modifiedAt.getUTCDate();
  head.writeUInt16LE(FLAGS, at);
  head.writeUInt16LE(time, at + 4);
  head.writeUInt16LE(date, at + 6);
  head.writeUInt32LE(crc32, at + 8);
  head.writeUInt32LE(field32(size), at + 12);
  head.writeUInt32LE(field32(size), at + 16);
  head.writeUInt16LE(name.length, at + 20);
  head.writeUInt16LE(
    extra.reduce((sum, { length }) => sum + length, 0),
    at + 22,
  );
}

/** Without this field, readers take the time for one of their own zone. */
function utcTime({ modifiedAt }: ZipEntry): Buffer {
  const bytes = Buffer.from('UT\0\0\0\0\0\0\0', 'latin1');
  bytes.writeUInt16LE(5, 2);
  // Of the three times, that of the last change.
  bytes.writeUInt8(1, 4);
  bytes.writeUInt32LE(Math.max(0, Math.floor(modifiedAt.getTime() / 1000)) % 2 ** 32, 5);
  return bytes;
}

function zip64(numbers: readonly number[]): Buffer {
  const bytes = Buffer.alloc(4 + 8 * numbers.length);
  bytes.writeUInt16LE(1, 0);
  bytes.writeUInt16LE(8 * numbers.length, 2);
  for (const [index, number] of numbers.entries()) {
    bytes.writeBigUInt64LE(BigInt(number), 4 + 8 * index);
  }
  return bytes;
}

function end(entries: number, directoryBytes: number, directoryOffset: number): Buffer {
  const isLong = entries >= MAX_16 || directoryOffset + directoryBytes >= MAX_32;
  const record = Buffer.alloc(22);
  record.writeUInt32LE(END, 0);
  record.writeUInt16LE(Math.min(entries, MAX_16), 8);
  record.writeUInt16LE(Math.min(entries, MAX_16), 10);
  record.writeUInt32LE(field32(directoryBytes), 12);
  record.writeUInt32LE(field32(directoryOffset), 16);
  if (!isLong) return record;
  const long = Buffer.alloc(56);
  long.writeUInt32LE(ZIP64_END, 0);
  long.writeBigUInt64LE(44n, 4);
  long.writeUInt16LE(MADE_BY | ZIP64_VERSION, 12);
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

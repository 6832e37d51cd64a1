import { ProtocolError } from '../bytes.js';
import type { SliceEntry } from '../slice-id.js';

/**
 * The trunk format: a plain ZIP whose entries are all stored uncompressed (APPNOTE 6.3.x, sections
 * 4.3.7, 4.3.12 and 4.3.16). TRUNK.md of this package describes the layout.
 */

const LOCAL_HEADER_SIGNATURE = 0x04034b50;
const DIRECTORY_ENTRY_SIGNATURE = 0x02014b50;
const END_SIGNATURE = 0x06054b50;

const LOCAL_HEADER_BYTES = 30;
const DIRECTORY_ENTRY_BYTES = 46;
const END_BYTES = 22;

/** Version 2.0, the minimum for stored entries. */
const VERSION_NEEDED = 20;
/** Host system 3 (unix) so that the mode below counts. */
const VERSION_MADE_BY = (3 << 8) | VERSION_NEEDED;
/** Regular file, rw-r--r--. */
const EXTERNAL_ATTRIBUTES = ((0o100644 << 16) >>> 0) as number;
/** Bit 11: names and comments are UTF-8. */
const UTF8_FLAG = 1 << 11;
const METHOD_STORED = 0;

/** 65,535 would announce ZIP64, so a trunk stays below it. */
export const MAX_ENTRIES = 0xfffe;
/** Limit of the format's 32-bit offsets. Trunks are far smaller. */
const MAX_TRUNK_BYTES = 0xffff_fffe;

/**
 * Encodes what surrounds the files' bytes in a trunk. Local headers have no extra field, so a
 * file's content begins 30 + name bytes after the start of its header; readers of the directory
 * rely on that.
 */

export interface TrunkMember {
  /** Key and extension. */
  readonly name: string;
  /** Bytes of content. */
  readonly size: number;
  readonly crc32: number;
  readonly modifiedAt: Date;
  /** Compact JSON: name, type, group, stagedAt. */
  readonly comment: string;
}

/** Bytes that a member adds to its trunk, its content included. */
export function memberBytes(nameBytes: number, commentBytes: number, size: number): number {
  return LOCAL_HEADER_BYTES + nameBytes + size + DIRECTORY_ENTRY_BYTES + nameBytes + commentBytes;
}

export function endBytes(commentBytes: number): number {
  return END_BYTES + commentBytes;
}

export function localHeaderBytes(nameBytes: number): number {
  return LOCAL_HEADER_BYTES + nameBytes;
}

/** Writes a member's local header, behind which its content begins. Returns its bytes. */
export function writeLocalHeader(
  target: Buffer,
  at: number,
  member: Omit<TrunkMember, 'comment'>,
): number {
  const nameBytes = target.write(member.name, at + LOCAL_HEADER_BYTES);
  target.writeUInt32LE(LOCAL_HEADER_SIGNATURE, at);
  target.writeUInt16LE(VERSION_NEEDED, at + 4);
  writeCommon(target, at + 6, member, nameBytes);
  target.writeUInt16LE(0, at + 28);
  return LOCAL_HEADER_BYTES + nameBytes;
}

/** At most this many bytes are a member's entry in the directory. */
export function mostEntryBytes({ name, comment }: Pick<TrunkMember, 'name' | 'comment'>): number {
  return DIRECTORY_ENTRY_BYTES + 3 * (name.length + comment.length);
}

/**
 * Writes a member's entry in the directory; `target` has `mostEntryBytes` from `at` on. Returns its
 * bytes. `headerOffset` is the position of the member's local header.
 */
export function writeDirectoryEntry(
  target: Buffer,
  at: number,
  member: TrunkMember,
  headerOffset: number,
): number {
  const nameBytes = target.write(member.name, at + DIRECTORY_ENTRY_BYTES);
  const commentBytes = target.write(member.comment, at + DIRECTORY_ENTRY_BYTES + nameBytes);
  target.writeUInt32LE(DIRECTORY_ENTRY_SIGNATURE, at);
  target.writeUInt16LE(VERSION_MADE_BY, at + 4);
  target.writeUInt16LE(VERSION_NEEDED, at + 6);
  writeCommon(target, at + 8, member, nameBytes);
  target.writeUInt16LE(0, at + 30);
  target.writeUInt16LE(commentBytes, at + 32);
  target.writeUInt32LE(0, at + 34);
  target.writeUInt32LE(EXTERNAL_ATTRIBUTES, at + 38);
  target.writeUInt32LE(headerOffset, at + 42);
  return DIRECTORY_ENTRY_BYTES + nameBytes + commentBytes;
}

export function encodeEnd(
  entries: number,
  directoryOffset: number,
  directoryBytes: number,
  comment: string,
): Buffer {
  if (entries > MAX_ENTRIES) throw new ProtocolError(`a trunk of ${entries} entries`);
  if (directoryOffset + directoryBytes > MAX_TRUNK_BYTES) {
    throw new ProtocolError(`a trunk of ${directoryOffset + directoryBytes} bytes`);
  }
  const text = Buffer.from(comment);
  const bytes = Buffer.alloc(END_BYTES + text.length);
  bytes.writeUInt32LE(END_SIGNATURE, 0);
  bytes.writeUInt16LE(entries, 8);
  bytes.writeUInt16LE(entries, 10);
  bytes.writeUInt32LE(directoryBytes, 12);
  bytes.writeUInt32LE(directoryOffset, 16);
  bytes.writeUInt16LE(text.length, 20);
  text.copy(bytes, END_BYTES);
  return bytes;
}

/** Flags, method, time, CRC-32, both sizes, name length and no extra field: 24 bytes from `at`. */
function writeCommon(
  bytes: Buffer,
  at: number,
  member: Omit<TrunkMember, 'comment'>,
  nameBytes: number,
): void {
  const { time, date } = dosTime(member.modifiedAt);
  bytes.writeUInt16LE(UTF8_FLAG, at);
  bytes.writeUInt16LE(METHOD_STORED, at + 2);
  bytes.writeUInt16LE(time, at + 4);
  bytes.writeUInt16LE(date, at + 6);
  bytes.writeUInt32LE(member.crc32, at + 8);
  bytes.writeUInt32LE(member.size, at + 12);
  bytes.writeUInt32LE(member.size, at + 16);
  bytes.writeUInt16LE(nameBytes, at + 20);
}

/** MS-DOS time in UTC; years before 1980 and after 2107 are clamped. */
function dosTime(when: Date): { time: number; date: number } {
  const year = Math.min(Math.max(when.getUTCFullYear(), 1980), 2107);
  return {
    time: (when.getUTCHours() << 11) | (when.getUTCMinutes() << 5) | (when.getUTCSeconds() >> 1),
    date: ((year - 1980) << 9) | ((when.getUTCMonth() + 1) << 5) | when.getUTCDate(),
  };
}

/** Reads a trunk's directory from bytes of its tail. Damage is a ProtocolError. */

export interface TrunkEnd {
  readonly entries: number;
  /** Position of the directory in the trunk. */
  readonly directoryOffset: number;
  readonly directoryBytes: number;
  readonly comment: string;
}

export interface TrunkEntry extends SliceEntry {
  /** Key and extension. */
  readonly name: string;
  readonly comment: string;
}

/** A tail of this length holds the end record of any trunk that we wrote. */
export const TAIL_BYTES = 1024;

/**
 * Finds the end record in the last bytes of a trunk of `trunkBytes`. The record must end the trunk,
 * and the directory must end where the record begins.
 */
export function parseTrunkEnd(tail: Buffer, trunkBytes: number): TrunkEnd {
  for (let at = tail.length - END_BYTES; at >= 0; at--) {
    if (tail.readUInt32LE(at) !== END_SIGNATURE) continue;
    const commentBytes = tail.readUInt16LE(at + 20);
    if (at + END_BYTES + commentBytes !== tail.length) continue;
    const end = {
      entries: tail.readUInt16LE(at + 10),
      directoryBytes: tail.readUInt32LE(at + 12),
      directoryOffset: tail.readUInt32LE(at + 16),
      comment: tail.toString('utf8', at + END_BYTES),
    };
    const endOffset = trunkBytes - tail.length + at;
    if (end.directoryOffset + end.directoryBytes === endOffset) return end;
  }
  throw new ProtocolError(`no trunk directory in the last ${tail.length} of ${trunkBytes} bytes`);
}

/**
 * The task id in the archive comment at the end of these bytes, even if what precedes it is
 * damaged; undefined if this is not the end of a trunk.
 */
export function parseTrunkTask(tail: Buffer): string | undefined {
  for (let at = tail.length - END_BYTES; at >= 0; at--) {
    if (tail.readUInt32LE(at) !== END_SIGNATURE) continue;
    if (at + END_BYTES + tail.readUInt16LE(at + 20) !== tail.length) continue;
    try {
      const comment = JSON.parse(tail.toString('utf8', at + END_BYTES)) as {
        readonly stevedore?: unknown;
        readonly taskId?: unknown;
      } | null;
      const isOurs = comment?.stevedore === 1 && typeof comment.taskId === 'string';
      if (isOurs) return comment.taskId as string;
    } catch {
      // Not a comment of ours.
    }
  }
  return undefined;
}

/** Entries in trunk order. `offset` is where the content begins. */
export function parseTrunkDirectory(directory: Buffer, end: TrunkEnd): TrunkEntry[] {
  const entries: TrunkEntry[] = [];
  scanTrunkDirectory(directory, end, (offset, size, crc32, nameFrom, commentFrom, next) => {
    entries.push({
      name: directory.toString('utf8', nameFrom, commentFrom),
      size,
      crc32,
      offset,
      comment: directory.toString('utf8', commentFrom, next),
    });
  });
  return entries;
}

/**
 * Visits an entry: its slice, and the positions of its name, its comment and the next entry in the
 * directory.
 */
type EntryVisitor = (
  offset: number,
  size: number,
  crc32: number,
  nameFrom: number,
  commentFrom: number,
  next: number,
) => void;

/** Visits the entries in trunk order, without allocating anything for them. */
export function scanTrunkDirectory(directory: Buffer, end: TrunkEnd, visit: EntryVisitor): void {
  let at = 0;
  for (let index = 0; index < end.entries; index++) {
    const next = entryEnd(directory, at);
    const nameBytes = directory.readUInt16LE(at + 28);
    const size = directory.readUInt32LE(at + 24);
    const offset = directory.readUInt32LE(at + 42) + LOCAL_HEADER_BYTES + nameBytes;
    if (directory.readUInt16LE(at + 10) !== METHOD_STORED || offset + size > end.directoryOffset) {
      throw new ProtocolError(`trunk directory entry ${index} is damaged`);
    }
    const nameFrom = at + DIRECTORY_ENTRY_BYTES;
    visit(offset, size, directory.readUInt32LE(at + 16), nameFrom, nameFrom + nameBytes, next);
    at = next;
  }
  if (at !== directory.length) {
    throw new ProtocolError(`trunk directory has ${directory.length - at} bytes too many`);
  }
}

function entryEnd(directory: Buffer, at: number): number {
  if (
    at + DIRECTORY_ENTRY_BYTES > directory.length ||
    directory.readUInt32LE(at) !== DIRECTORY_ENTRY_SIGNATURE
  ) {
    throw new ProtocolError(`trunk directory is damaged at byte ${at}`);
  }
  const next =
    at +
    DIRECTORY_ENTRY_BYTES +
    directory.readUInt16LE(at + 28) +
    directory.readUInt16LE(at + 30) +
    directory.readUInt16LE(at + 32);
  if (next > directory.length || directory.readUInt16LE(at + 30) !== 0) {
    throw new ProtocolError(`trunk directory is damaged at byte ${at}`);
  }
  return next;
}

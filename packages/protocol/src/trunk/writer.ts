import { ProtocolError } from '../errors.js';
import {
  DIRECTORY_ENTRY_BYTES,
  DIRECTORY_ENTRY_SIGNATURE,
  END_BYTES,
  END_SIGNATURE,
  EXTERNAL_ATTRIBUTES,
  LOCAL_HEADER_BYTES,
  LOCAL_HEADER_SIGNATURE,
  MAX_ENTRIES,
  MAX_TRUNK_BYTES,
  METHOD_STORED,
  UTF8_FLAG,
  VERSION_MADE_BY,
  VERSION_NEEDED,
} from './constants.js';

/**
 * Bytes of a trunk around the files' own bytes. Local headers carry no extra
 * field, so a file's content begins 30 + name bytes behind its header; readers
 * of the directory rely on that.
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

/** Bytes that every trunk has beside its members. */
export function endBytes(commentBytes: number): number {
  return END_BYTES + commentBytes;
}

export function localHeaderBytes(nameBytes: number): number {
  return LOCAL_HEADER_BYTES + nameBytes;
}

export function encodeLocalHeader(member: TrunkMember): Buffer {
  const name = Buffer.from(member.name);
  const bytes = Buffer.alloc(LOCAL_HEADER_BYTES + name.length);
  bytes.writeUInt32LE(LOCAL_HEADER_SIGNATURE, 0);
  bytes.writeUInt16LE(VERSION_NEEDED, 4);
  writeCommon(bytes, 6, member, name.length);
  name.copy(bytes, LOCAL_HEADER_BYTES);
  return bytes;
}

/** `headerOffset` is where the member's local header begins. */
export function encodeDirectoryEntry(member: TrunkMember, headerOffset: number): Buffer {
  const name = Buffer.from(member.name);
  const comment = Buffer.from(member.comment);
  const bytes = Buffer.alloc(DIRECTORY_ENTRY_BYTES + name.length + comment.length);
  bytes.writeUInt32LE(DIRECTORY_ENTRY_SIGNATURE, 0);
  bytes.writeUInt16LE(VERSION_MADE_BY, 4);
  bytes.writeUInt16LE(VERSION_NEEDED, 6);
  writeCommon(bytes, 8, member, name.length);
  bytes.writeUInt16LE(comment.length, 32);
  bytes.writeUInt32LE(EXTERNAL_ATTRIBUTES, 38);
  bytes.writeUInt32LE(headerOffset, 42);
  name.copy(bytes, DIRECTORY_ENTRY_BYTES);
  comment.copy(bytes, DIRECTORY_ENTRY_BYTES + name.length);
  return bytes;
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
function writeCommon(bytes: Buffer, at: number, member: TrunkMember, nameBytes: number): void {
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

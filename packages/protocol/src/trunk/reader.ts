import { ProtocolError } from '../errors.js';
import type { SliceEntry } from '../slice-id.js';
import {
  DIRECTORY_ENTRY_BYTES,
  DIRECTORY_ENTRY_SIGNATURE,
  END_BYTES,
  END_SIGNATURE,
  LOCAL_HEADER_BYTES,
  METHOD_STORED,
} from './constants.js';

/** Reads a trunk's directory from bytes of its tail. Damage is a ProtocolError. */

export interface TrunkEnd {
  readonly entries: number;
  /** Where the directory begins in the trunk. */
  readonly directoryOffset: number;
  readonly directoryBytes: number;
  readonly comment: string;
}

export interface TrunkEntry extends SliceEntry {
  /** Key and extension. */
  readonly name: string;
  readonly comment: string;
}

/** Bytes of tail that surely hold the end record of a trunk written here. */
export const TAIL_BYTES = 1024;

/**
 * Finds the end record in the last bytes of a trunk of `trunkBytes`. The record
 * must be the last thing in it and its directory must end where it begins.
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
 * The task in the archive comment at the end of these bytes, even if what is before
 * them is damaged; undefined when they are not the end of a trunk.
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
      // Some other archive's comment.
    }
  }
  return undefined;
}

/** Entries in the order of the trunk. `offset` is where the content begins. */
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

/** An entry in numbers: its slice, and where in the directory name, comment and next entry begin. */
export type EntryVisitor = (
  offset: number,
  size: number,
  crc32: number,
  nameFrom: number,
  commentFrom: number,
  next: number,
) => void;

/** Entries in the order of the trunk, without making anything of them. */
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

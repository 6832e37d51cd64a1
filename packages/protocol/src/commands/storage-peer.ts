import { ByteReader, ByteWriter } from '../bytes.js';
import type { Codec, Command, PayloadCommand } from '../command.js';
import { CommandCode, GROUP_BYTES, MAX_NAME_BYTES } from '../constants.js';
import { ProtocolError } from '../errors.js';
import { nothing } from './shared.js';

/**
 * How a storage passes its changes on to the other members of its group. Every
 * request carries the time of the original change, unix seconds. The group field
 * of the C programs holds old memory behind its NUL.
 */

interface Change {
  /** When the change was made at its source. */
  readonly atSeconds: number;
  readonly group: string;
  /** `M00/3F/A2/...` */
  readonly name: string;
}

/** A whole file, or with the header status `ALREADY_THERE` only the news of one. */
export interface SyncFile extends Change {
  readonly size: number;
}

/** Header status of a SYNC_CREATE_FILE or SYNC_UPDATE_FILE that brings no content. */
export const ALREADY_THERE = 17;

const TWO_LENGTHS_BYTES = 16;
const THREE_LENGTHS_BYTES = 24;
const TIME_AND_GROUP_BYTES = 4 + GROUP_BYTES;

/** `name_len i64 | size i64 | time i32 | group str(16) | name`, then the bytes */
const syncFile: Codec<SyncFile> = {
  encode: ({ name, size, atSeconds, group }) =>
    new ByteWriter()
      .i64(name.length)
      .i64(size)
      .i32(atSeconds)
      .text(group, GROUP_BYTES, 'group')
      .restText(name)
      .toBuffer(),
  decode(bytes) {
    const reader = new ByteReader(bytes);
    const nameBytes = reader.size('name length');
    const size = reader.size('size');
    return { size, ...readChange(reader, nameBytes) };
  },
};

const syncFileCommand = {
  request: syncFile,
  reply: nothing,
  minHeadBytes: TWO_LENGTHS_BYTES,
  headBytes: (prefix: Buffer) => headBytes(prefix, TWO_LENGTHS_BYTES),
  payloadBytes: ({ size }: SyncFile) => size,
};

/** STORAGE_SYNC_CREATE_FILE (16) */
export const syncCreateFile: PayloadCommand<SyncFile, undefined> = {
  ...syncFileCommand,
  name: 'STORAGE_SYNC_CREATE_FILE',
  code: CommandCode.syncCreateFile,
};

/** STORAGE_SYNC_UPDATE_FILE (18): replaces a whole file; metadata, for the most part. */
export const syncUpdateFile: PayloadCommand<SyncFile, undefined> = {
  ...syncFileCommand,
  name: 'STORAGE_SYNC_UPDATE_FILE',
  code: CommandCode.syncUpdateFile,
};

/** A part of a file. */
export interface SyncPart extends Change {
  readonly offset: number;
  /** Bytes that follow. */
  readonly size: number;
}

/** `name_len i64 | offset i64 | length i64 | time i32 | group str(16) | name`, then the bytes */
const syncPart: Codec<SyncPart> = {
  encode: ({ name, offset, size, atSeconds, group }) =>
    new ByteWriter()
      .i64(name.length)
      .i64(offset)
      .i64(size)
      .i32(atSeconds)
      .text(group, GROUP_BYTES, 'group')
      .restText(name)
      .toBuffer(),
  decode(bytes) {
    const reader = new ByteReader(bytes);
    const nameBytes = reader.size('name length');
    const offset = reader.size('offset');
    const size = reader.size('length');
    return { offset, size, ...readChange(reader, nameBytes) };
  },
};

const syncPartCommand = {
  request: syncPart,
  reply: nothing,
  minHeadBytes: THREE_LENGTHS_BYTES,
  headBytes: (prefix: Buffer) => headBytes(prefix, THREE_LENGTHS_BYTES),
  payloadBytes: ({ size }: SyncPart) => size,
};

/** STORAGE_SYNC_APPEND_FILE (25): status 2 asks for the whole file, 17 is done already. */
export const syncAppendFile: PayloadCommand<SyncPart, undefined> = {
  ...syncPartCommand,
  name: 'STORAGE_SYNC_APPEND_FILE',
  code: CommandCode.syncAppendFile,
};

/** STORAGE_SYNC_MODIFY_FILE (35) */
export const syncModifyFile: PayloadCommand<SyncPart, undefined> = {
  ...syncPartCommand,
  name: 'STORAGE_SYNC_MODIFY_FILE',
  code: CommandCode.syncModifyFile,
};

export interface SyncTruncation extends Change {
  readonly oldSize: number;
  readonly newSize: number;
}

/** STORAGE_SYNC_TRUNCATE_FILE (37): as a part, without bytes; status 17 for another old size. */
export const syncTruncateFile: Command<SyncTruncation, undefined> = {
  name: 'STORAGE_SYNC_TRUNCATE_FILE',
  code: CommandCode.syncTruncateFile,
  request: {
    encode: ({ oldSize, newSize, ...change }) =>
      syncPart.encode({ ...change, offset: oldSize, size: newSize }),
    decode(bytes) {
      const { offset, size, ...change } = syncPart.decode(bytes);
      return { ...change, oldSize: offset, newSize: size };
    },
  },
  reply: nothing,
};

/** STORAGE_SYNC_DELETE_FILE (17): `time i32 | group str(16) | name`; status 2 if it is not there. */
export const syncDeleteFile: Command<Change, undefined> = {
  name: 'STORAGE_SYNC_DELETE_FILE',
  code: CommandCode.syncDeleteFile,
  request: {
    encode: ({ atSeconds, group, name }) =>
      new ByteWriter().i32(atSeconds).text(group, GROUP_BYTES, 'group').restText(name).toBuffer(),
    decode(bytes) {
      const reader = new ByteReader(bytes);
      return readChange(reader, bytes.length - TIME_AND_GROUP_BYTES);
    },
  },
  reply: nothing,
};

/** `name` comes to lead to `source`, or to be what `source` was. */
export interface SyncPair extends Change {
  readonly source: string;
}

/** `name_len i64 | source_len i64 | time i32 | group str(16) | name | source` */
const syncPair: Codec<SyncPair> = {
  encode: ({ name, source, atSeconds, group }) =>
    new ByteWriter()
      .i64(name.length)
      .i64(source.length)
      .i32(atSeconds)
      .text(group, GROUP_BYTES, 'group')
      .restText(name)
      .restText(source)
      .toBuffer(),
  decode(bytes) {
    const reader = new ByteReader(bytes);
    const nameBytes = reader.size('name length');
    const sourceBytes = reader.size('source length');
    const change = readChange(reader, nameBytes, sourceBytes);
    return { ...change, source: readName(reader, sourceBytes) };
  },
};

/** STORAGE_SYNC_CREATE_LINK (19) */
export const syncCreateLink: Command<SyncPair, undefined> = {
  name: 'STORAGE_SYNC_CREATE_LINK',
  code: CommandCode.syncCreateLink,
  request: syncPair,
  reply: nothing,
};

/**
 * STORAGE_SYNC_RENAME_FILE (40): status 2 asks for the whole file. The C storage
 * sends the request back when it succeeds.
 */
export const syncRenameFile: Command<SyncPair, undefined> = {
  name: 'STORAGE_SYNC_RENAME_FILE',
  code: CommandCode.syncRenameFile,
  request: syncPair,
  reply: { encode: nothing.encode, decode: () => undefined },
};

function headBytes(prefix: Buffer, lengthsBytes: number): number {
  const nameBytes = new ByteReader(prefix).size('name length');
  if (nameBytes > MAX_NAME_BYTES) throw new ProtocolError(`a file name of ${nameBytes} bytes`);
  return lengthsBytes + TIME_AND_GROUP_BYTES + nameBytes;
}

/** Time, group and name; `behind` bytes must follow. */
function readChange(reader: ByteReader, nameBytes: number, behind = 0): Change {
  const atSeconds = reader.i32('time');
  const group = reader.text(GROUP_BYTES, 'group');
  if (nameBytes + behind !== reader.remaining) {
    throw new ProtocolError(`names of ${nameBytes} and ${behind} bytes in ${reader.remaining}`);
  }
  return { atSeconds, group, name: readName(reader, nameBytes) };
}

function readName(reader: ByteReader, bytes: number): string {
  if (bytes < 1 || bytes > MAX_NAME_BYTES) throw new ProtocolError(`a file name of ${bytes} bytes`);
  return reader.bytes(bytes, 'name').toString('latin1');
}

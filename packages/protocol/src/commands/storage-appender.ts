import { ByteReader, ByteWriter } from '../bytes.js';
import type { Codec, Command, PayloadCommand } from '../command.js';
import { CommandCode } from '../constants.js';
import { ProtocolError } from '../errors.js';
import { type FileName, fileName, nothing } from './shared.js';
import { type UploadRequest, uploadFile } from './storage-file.js';

/** Appender files: files that may grow, be overwritten in part, and be cut. */

/** UPLOAD_APPENDER_FILE (23): as UPLOAD_FILE, for a file that may change later. */
export const uploadAppenderFile: PayloadCommand<UploadRequest, FileName> = {
  ...uploadFile,
  name: 'UPLOAD_APPENDER_FILE',
  code: CommandCode.uploadAppenderFile,
};

/** The group is not sent: the storage knows its own. */
export interface AppendRequest {
  /** `M00/3F/A2/...` */
  readonly name: string;
  /** Bytes that follow. */
  readonly size: number;
}

const TWO_LENGTHS_BYTES = 16;
const THREE_LENGTHS_BYTES = 24;

/** `name_len i64 | size i64 | name`, then the bytes to append */
const appendRequest: Codec<AppendRequest> = {
  encode: ({ name, size }) => new ByteWriter().i64(name.length).i64(size).restText(name).toBuffer(),
  decode(bytes) {
    const reader = new ByteReader(bytes);
    const nameBytes = reader.size('name length');
    const size = reader.size('size');
    return { size, name: readName(reader, nameBytes) };
  },
};

/** APPEND_FILE (24) */
export const appendFile: PayloadCommand<AppendRequest, undefined> = {
  name: 'APPEND_FILE',
  code: CommandCode.appendFile,
  request: appendRequest,
  reply: nothing,
  minHeadBytes: TWO_LENGTHS_BYTES,
  headBytes: (prefix) => TWO_LENGTHS_BYTES + new ByteReader(prefix).size('name length'),
  payloadBytes: ({ size }) => size,
};

export interface ModifyRequest extends AppendRequest {
  /** Where the bytes go; at most the present size. */
  readonly offset: number;
}

/** `name_len i64 | offset i64 | size i64 | name`, then the bytes */
const modifyRequest: Codec<ModifyRequest> = {
  encode: ({ name, offset, size }) =>
    new ByteWriter().i64(name.length).i64(offset).i64(size).restText(name).toBuffer(),
  decode(bytes) {
    const reader = new ByteReader(bytes);
    const nameBytes = reader.size('name length');
    const offset = reader.size('offset');
    const size = reader.size('size');
    return { offset, size, name: readName(reader, nameBytes) };
  },
};

/** MODIFY_FILE (34): overwrites from `offset` on; writing past the end extends the file. */
export const modifyFile: PayloadCommand<ModifyRequest, undefined> = {
  name: 'MODIFY_FILE',
  code: CommandCode.modifyFile,
  request: modifyRequest,
  reply: nothing,
  minHeadBytes: THREE_LENGTHS_BYTES,
  headBytes: (prefix) => THREE_LENGTHS_BYTES + new ByteReader(prefix).size('name length'),
  payloadBytes: ({ size }) => size,
};

export interface TruncateRequest {
  readonly name: string;
  /** Bytes the file shall have; more than it has fills with zeros. */
  readonly size: number;
}

/** `name_len i64 | new_size i64 | name` */
const truncateRequest: Codec<TruncateRequest> = {
  encode: appendRequest.encode,
  decode(bytes) {
    const reader = new ByteReader(bytes);
    const nameBytes = reader.size('name length');
    const size = reader.size('new size');
    const name = readName(reader, nameBytes);
    reader.end('TRUNCATE_FILE');
    return { name, size };
  },
};

/** TRUNCATE_FILE (36) */
export const truncateFile: Command<TruncateRequest, undefined> = {
  name: 'TRUNCATE_FILE',
  code: CommandCode.truncateFile,
  request: truncateRequest,
  reply: nothing,
};

const nameOnly: Codec<{ readonly name: string }> = {
  encode: ({ name }) => Buffer.from(name, 'latin1'),
  decode: (bytes) => ({ name: bytes.toString('latin1') }),
};

/** REGENERATE_APPENDER_FILENAME (38): the appender becomes a normal file of another name. */
export const regenerateAppender: Command<{ readonly name: string }, FileName> = {
  name: 'REGENERATE_APPENDER_FILENAME',
  code: CommandCode.regenerateAppenderFilename,
  request: nameOnly,
  reply: fileName,
};

function readName(reader: ByteReader, nameBytes: number): string {
  if (nameBytes > reader.remaining) throw new ProtocolError(`a file name of ${nameBytes} bytes`);
  return reader.bytes(nameBytes, 'name').toString('latin1');
}

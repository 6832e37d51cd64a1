import { ByteReader, ByteWriter } from '../bytes.js';
import type { Codec, Command, PayloadCommand } from '../command.js';
import { CommandCode, EXTENSION_BYTES, GROUP_BYTES, SLAVE_PREFIX_BYTES } from '../constants.js';
import { ProtocolError } from '../errors.js';
import { type FileName, fileName } from './shared.js';

/** Files that hang on another one: slaves, stored under its name, and links. */

export interface SlaveUploadRequest {
  /** Name of the master without its group. */
  readonly master: string;
  /** Bytes that follow. */
  readonly size: number;
  /** What the slave's name has behind the master's, 1 to 16 of `A-Z a-z 0-9 . _ -`. */
  readonly prefix: string;
  readonly extension: string;
}

const FIXED_BYTES = 8 + 8 + SLAVE_PREFIX_BYTES + EXTENSION_BYTES;

/** `master_len i64 | size i64 | prefix str(16) | ext str(6) | master`, then the bytes */
const slaveUploadRequest: Codec<SlaveUploadRequest> = {
  encode: ({ master, size, prefix, extension }) =>
    new ByteWriter()
      .i64(master.length)
      .i64(size)
      .text(prefix, SLAVE_PREFIX_BYTES, 'prefix')
      .text(extension, EXTENSION_BYTES, 'ext')
      .restText(master)
      .toBuffer(),
  decode(bytes) {
    const reader = new ByteReader(bytes);
    const masterBytes = reader.size('master length');
    const size = reader.size('size');
    const prefix = reader.text(SLAVE_PREFIX_BYTES, 'prefix');
    const extension = reader.text(EXTENSION_BYTES, 'ext');
    return { master: readText(reader, masterBytes), size, prefix, extension };
  },
};

/** UPLOAD_SLAVE_FILE (21): stores a file under its master's name and a prefix. */
export const uploadSlaveFile: PayloadCommand<SlaveUploadRequest, FileName> = {
  name: 'UPLOAD_SLAVE_FILE',
  code: CommandCode.uploadSlaveFile,
  request: slaveUploadRequest,
  reply: fileName,
  minHeadBytes: FIXED_BYTES,
  headBytes: (prefix) => FIXED_BYTES + new ByteReader(prefix).size('master length'),
  payloadBytes: ({ size }) => size,
};

export interface LinkRequest {
  readonly group: string;
  /** Empty: the link gets a name of its own. */
  readonly master: string;
  readonly prefix: string;
  readonly extension: string;
  /** Name of the file the link leads to. */
  readonly source: string;
  readonly signature: string;
}

/** `master_len i64 | src_len i64 | sig_len i64 | group | prefix | ext | master | src | signature` */
const linkRequest: Codec<LinkRequest> = {
  encode: ({ group, master, prefix, extension, source, signature }) =>
    new ByteWriter()
      .i64(master.length)
      .i64(source.length)
      .i64(signature.length)
      .text(group, GROUP_BYTES, 'group')
      .text(prefix, SLAVE_PREFIX_BYTES, 'prefix')
      .text(extension, EXTENSION_BYTES, 'ext')
      .restText(master + source + signature)
      .toBuffer(),
  decode(bytes) {
    const reader = new ByteReader(bytes);
    const masterBytes = reader.size('master length');
    const sourceBytes = reader.size('source length');
    const signatureBytes = reader.size('signature length');
    const group = reader.text(GROUP_BYTES, 'group');
    const prefix = reader.text(SLAVE_PREFIX_BYTES, 'prefix');
    const extension = reader.text(EXTENSION_BYTES, 'ext');
    const master = readText(reader, masterBytes);
    const source = readText(reader, sourceBytes);
    const signature = readText(reader, signatureBytes);
    reader.end('CREATE_LINK');
    return { group, master, prefix, extension, source, signature };
  },
};

/** CREATE_LINK (20) */
export const createLink: Command<LinkRequest, FileName> = {
  name: 'CREATE_LINK',
  code: CommandCode.createLink,
  request: linkRequest,
  reply: fileName,
};

function readText(reader: ByteReader, bytes: number): string {
  if (bytes > reader.remaining) throw new ProtocolError(`a name of ${bytes} bytes`);
  return reader.bytes(bytes, 'name').toString('latin1');
}

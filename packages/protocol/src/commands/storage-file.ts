import { ByteReader, ByteWriter } from '../bytes.js';
import type { Codec, Command, PayloadCommand } from '../command.js';
import { CommandCode, EXTENSION_BYTES, GROUP_BYTES, IP_BYTES } from '../constants.js';
import { ProtocolError } from '../errors.js';
import { type FileName, fileName, nothing } from './shared.js';

export interface UploadRequest {
  /** 0 to 254, or ANY_STORE_PATH to let the storage choose. */
  readonly storePathIndex: number;
  /** Bytes of the file. */
  readonly size: number;
  /** Without its dot, at most 6 of `A-Z a-z 0-9 . _ -`; may be empty. */
  readonly extension: string;
}

const UPLOAD_HEAD_BYTES = 1 + 8 + EXTENSION_BYTES;

/** `store_path_index u8 | size i64 | ext str(6)`, then the bytes of the file */
const uploadRequest: Codec<UploadRequest> = {
  encode: ({ storePathIndex, size, extension }) =>
    new ByteWriter()
      .u8(storePathIndex)
      .i64(size)
      .text(extension, EXTENSION_BYTES, 'ext')
      .toBuffer(),
  decode(bytes) {
    const reader = new ByteReader(bytes);
    const storePathIndex = reader.u8('store_path_index');
    const size = reader.size('size');
    return { storePathIndex, size, extension: reader.text(EXTENSION_BYTES, 'ext') };
  },
};

/** UPLOAD_FILE (11): stores a new file; the reply names it. */
export const uploadFile: PayloadCommand<UploadRequest, FileName> = {
  name: 'UPLOAD_FILE',
  code: CommandCode.uploadFile,
  request: uploadRequest,
  reply: fileName,
  minHeadBytes: UPLOAD_HEAD_BYTES,
  headBytes: () => UPLOAD_HEAD_BYTES,
  payloadBytes: ({ size }) => size,
};

export interface DownloadRequest extends FileName {
  /** First byte wanted. */
  readonly offset: number;
  /** Bytes wanted; 0 means to the end of the file. */
  readonly length: number;
}

/** `offset i64 | bytes i64 | group str(16) | name text`; the reply's body is the bytes asked for. */
const downloadRequest: Codec<DownloadRequest> = {
  encode: ({ offset, length, group, name }) =>
    new ByteWriter()
      .i64(offset)
      .i64(length)
      .text(group, GROUP_BYTES, 'group')
      .restText(name)
      .toBuffer(),
  decode(bytes) {
    const reader = new ByteReader(bytes);
    const offset = reader.size('offset');
    const length = reader.size('bytes');
    return { offset, length, ...fileName.decode(reader.rest()) };
  },
};

/**
 * Flags of DOWNLOAD_FILE, carried in the request header's status byte, which stock storages do
 * not look at. With `placeWanted` a storage of ours may answer with status 66 (`elsewhere`)
 * and, as the body, the FastDFS id at which the file's bytes are.
 */
export const DownloadFlag = { placeWanted: 1 } as const;

/** A body handed through as it is. */
const rawBytes: Codec<Buffer> = { encode: (value) => value, decode: (value) => value };

/** DOWNLOAD_FILE (14): bytes of a file. Clients stream the reply instead of decoding it. */
export const downloadFile: Command<DownloadRequest, Buffer> = {
  name: 'DOWNLOAD_FILE',
  code: CommandCode.downloadFile,
  request: downloadRequest,
  reply: rawBytes,
};

/** DELETE_FILE (12) */
export const deleteFile: Command<FileName, undefined> = {
  name: 'DELETE_FILE',
  code: CommandCode.deleteFile,
  request: fileName,
  reply: nothing,
};

/** Flags of QUERY_FILE_INFO, carried in the request header's status byte. */
export const QueryInfoFlag = { noCrc: 1, silent: 2 } as const;

export interface RemoteFileInfo {
  /** Bytes. */
  readonly size: number;
  /** Modification time, unix seconds. */
  readonly mtimeSeconds: number;
  /** Unsigned. */
  readonly crc32: number;
  /** Address of the storage that first took the file; empty if it cannot tell. */
  readonly sourceAddress: string;
}

/** 40 or 70 bytes: `size i64 | mtime i64 | crc32 i64, sign-extended | source ip str(16|46)` */
const remoteFileInfo: Codec<RemoteFileInfo> = {
  encode: (value, width = 'narrow') =>
    new ByteWriter()
      .i64(value.size)
      .i64(value.mtimeSeconds)
      .crc32(value.crc32)
      .text(value.sourceAddress, IP_BYTES[width], 'source ip')
      .toBuffer(),
  decode(bytes) {
    const ipBytes = bytes.length - 24;
    if (ipBytes !== IP_BYTES.narrow && ipBytes !== IP_BYTES.wide) {
      throw new ProtocolError(`a file info reply of ${bytes.length} bytes`);
    }
    const reader = new ByteReader(bytes);
    const size = reader.size('size');
    const mtimeSeconds = reader.i64('mtime');
    const crc32 = reader.crc32('crc32');
    return { size, mtimeSeconds, crc32, sourceAddress: reader.text(ipBytes, 'source ip') };
  },
};

/** QUERY_FILE_INFO (22) */
export const queryFileInfo: Command<FileName, RemoteFileInfo> = {
  name: 'QUERY_FILE_INFO',
  code: CommandCode.queryFileInfo,
  request: fileName,
  reply: remoteFileInfo,
};

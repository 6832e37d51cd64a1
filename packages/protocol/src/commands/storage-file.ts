import { EXTENSION_BYTES, SLAVE_PREFIX_BYTES } from '../constants.js';
import {
  address,
  type BodyOf,
  counted,
  crc32,
  i64,
  length,
  record,
  size,
  tail,
  text,
  u8,
} from '../layout.js';
import { command, fileName, group, nothing, payloadCommand, raw } from './shared.js';

const uploadRequest = record({
  /** 0 to 254, or ANY_STORE_PATH to let the storage choose. */
  storePathIndex: u8,
  /** Bytes of the file that follow. */
  size,
  /** Without its dot, at most 6 of `A-Z a-z 0-9 . _ -`; may be empty. */
  extension: text(EXTENSION_BYTES),
});
export type UploadRequest = BodyOf<typeof uploadRequest>;

/** Stores a new file; the reply names it. */
export const uploadFile = payloadCommand('UPLOAD_FILE', 11, uploadRequest, fileName);

const downloadRequest = record({
  /** First byte wanted. */
  offset: size,
  /** Bytes wanted; 0 means to the end of the file. */
  length: size,
  group,
  name: tail(),
});
export type DownloadRequest = BodyOf<typeof downloadRequest>;

/**
 * Flags of DOWNLOAD_FILE, in the status byte of the request header, which stock storages ignore.
 * With `placeWanted` one of our storages may answer with status 66 (`redirect`) and, as the body,
 * the FastDFS id under which the file's bytes are.
 */
export const DownloadFlag = { placeWanted: 1 } as const;

/** Bytes of a file. Clients stream the reply instead of decoding it. */
export const downloadFile = command('DOWNLOAD_FILE', 14, downloadRequest, raw);

export const deleteFile = command('DELETE_FILE', 12, fileName, nothing);

/** Flags of QUERY_FILE_INFO, in the status byte of the request header. */
export const QueryInfoFlag = { noCrc: 1, silent: 2 } as const;

const remoteFileInfo = record(
  {
    size,
    mtimeSeconds: i64,
    /** Unsigned. */
    crc32,
    /** Address of the source storage; empty if unknown. */
    sourceAddress: address(),
  },
  'a file info reply',
);
export type RemoteFileInfo = BodyOf<typeof remoteFileInfo>;

export const queryFileInfo = command('QUERY_FILE_INFO', 22, fileName, remoteFileInfo);

/**
 * Appender files: files that can be appended to, overwritten in part and truncated. Requests do not
 * carry the group: the storage knows its own.
 */

/** As UPLOAD_FILE, for a file that can change later. */
export const uploadAppenderFile = {
  ...uploadFile,
  name: 'UPLOAD_APPENDER_FILE',
  code: 23,
};

const appendRequest = record({
  '#name': length,
  /** Bytes to append that follow. */
  size,
  /** `M00/3F/A2/...` */
  name: counted(),
});
export type AppendRequest = BodyOf<typeof appendRequest>;

export const appendFile = payloadCommand('APPEND_FILE', 24, appendRequest, nothing);

const modifyRequest = record({
  '#name': length,
  /** Where to write; at most the current size. */
  offset: size,
  size,
  name: counted(),
});

/** Overwrites from `offset`; writing past the end extends the file. */
export const modifyFile = payloadCommand('MODIFY_FILE', 34, modifyRequest, nothing);

const truncateRequest = record(
  {
    '#name': length,
    /** New size; a larger size extends the file with zeros. */
    size,
    name: counted(),
  },
  'TRUNCATE_FILE',
);

export const truncateFile = command('TRUNCATE_FILE', 36, truncateRequest, nothing);

/** Turns an appender into a normal file with a new name. */
export const regenerateAppender = command(
  'REGENERATE_APPENDER_FILENAME',
  38,
  record({ name: tail() }),
  fileName,
);

/** Slaves: files stored under the name of another one. */

/** What follows the master's name, 1 to 16 of `A-Z a-z 0-9 . _ -`. */
const prefix = text(SLAVE_PREFIX_BYTES);
const extension = text(EXTENSION_BYTES);

const slaveUploadRequest = record({
  '#master': length,
  /** Bytes that follow. */
  size,
  prefix,
  extension,
  /** Name of the master without its group. */
  master: counted(),
});

/** Stores a file under its master's name plus a prefix. */
export const uploadSlaveFile = payloadCommand(
  'UPLOAD_SLAVE_FILE',
  21,
  slaveUploadRequest,
  fileName,
);

import { CommandCode, EXTENSION_BYTES, SLAVE_PREFIX_BYTES } from '../constants.js';
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

/** UPLOAD_FILE (11): stores a new file; the reply names it. */
export const uploadFile = payloadCommand(
  'UPLOAD_FILE',
  CommandCode.uploadFile,
  uploadRequest,
  fileName,
);

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

/** DOWNLOAD_FILE (14): bytes of a file. Clients stream the reply instead of decoding it. */
export const downloadFile = command(
  'DOWNLOAD_FILE',
  CommandCode.downloadFile,
  downloadRequest,
  raw,
);

/** DELETE_FILE (12) */
export const deleteFile = command('DELETE_FILE', CommandCode.deleteFile, fileName, nothing);

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

/** QUERY_FILE_INFO (22) */
export const queryFileInfo = command(
  'QUERY_FILE_INFO',
  CommandCode.queryFileInfo,
  fileName,
  remoteFileInfo,
);

/**
 * Appender files: files that can be appended to, overwritten in part and truncated. Requests do not
 * carry the group: the storage knows its own.
 */

/** UPLOAD_APPENDER_FILE (23): as UPLOAD_FILE, for a file that can change later. */
export const uploadAppenderFile = {
  ...uploadFile,
  name: 'UPLOAD_APPENDER_FILE',
  code: CommandCode.uploadAppenderFile,
};

const appendRequest = record({
  '#name': length,
  /** Bytes to append that follow. */
  size,
  /** `M00/3F/A2/...` */
  name: counted(),
});
export type AppendRequest = BodyOf<typeof appendRequest>;

/** APPEND_FILE (24) */
export const appendFile = payloadCommand(
  'APPEND_FILE',
  CommandCode.appendFile,
  appendRequest,
  nothing,
);

const modifyRequest = record({
  '#name': length,
  /** Where to write; at most the current size. */
  offset: size,
  size,
  name: counted(),
});
export type ModifyRequest = BodyOf<typeof modifyRequest>;

/** MODIFY_FILE (34): overwrites from `offset`; writing past the end extends the file. */
export const modifyFile = payloadCommand(
  'MODIFY_FILE',
  CommandCode.modifyFile,
  modifyRequest,
  nothing,
);

const truncateRequest = record(
  {
    '#name': length,
    /** New size; a larger size extends the file with zeros. */
    size,
    name: counted(),
  },
  'TRUNCATE_FILE',
);
export type TruncateRequest = BodyOf<typeof truncateRequest>;

/** TRUNCATE_FILE (36) */
export const truncateFile = command(
  'TRUNCATE_FILE',
  CommandCode.truncateFile,
  truncateRequest,
  nothing,
);

/** REGENERATE_APPENDER_FILENAME (38): turns an appender into a normal file with a new name. */
export const regenerateAppender = command(
  'REGENERATE_APPENDER_FILENAME',
  CommandCode.regenerateAppenderFilename,
  record({ name: tail() }),
  fileName,
);

/** Files that depend on another one: slaves, stored under its name, and links. */

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
export type SlaveUploadRequest = BodyOf<typeof slaveUploadRequest>;

/** UPLOAD_SLAVE_FILE (21): stores a file under its master's name plus a prefix. */
export const uploadSlaveFile = payloadCommand(
  'UPLOAD_SLAVE_FILE',
  CommandCode.uploadSlaveFile,
  slaveUploadRequest,
  fileName,
);

const linkRequest = record(
  {
    '#master': length,
    '#source': length,
    '#signature': length,
    group,
    prefix,
    extension,
    /** Empty: the link gets a name of its own. */
    master: counted(),
    /** Name of the target. */
    source: counted(),
    signature: counted(),
  },
  'CREATE_LINK',
);
export type LinkRequest = BodyOf<typeof linkRequest>;

/** CREATE_LINK (20) */
export const createLink = command('CREATE_LINK', CommandCode.createLink, linkRequest, fileName);

import { command, payloadCommand } from '../command.js';
import { CommandCode, EXTENSION_BYTES } from '../constants.js';
import { address, type BodyOf, crc32, i64, record, size, tail, text, u8 } from '../layout.js';
import { fileName, group, nothing, raw } from './shared.js';

const uploadRequest = record({
  /** 0 to 254, or ANY_STORE_PATH to let the storage choose. */
  storePathIndex: u8,
  /** Bytes of the file, which follow. */
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
 * Flags of DOWNLOAD_FILE, carried in the request header's status byte, which stock storages do
 * not look at. With `placeWanted` a storage of ours may answer with status 66 (`elsewhere`)
 * and, as the body, the FastDFS id at which the file's bytes are.
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

/** Flags of QUERY_FILE_INFO, carried in the request header's status byte. */
export const QueryInfoFlag = { noCrc: 1, silent: 2 } as const;

const remoteFileInfo = record(
  {
    size,
    mtimeSeconds: i64,
    /** Unsigned. */
    crc32,
    /** Of the storage that first took the file; empty if it cannot tell. */
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

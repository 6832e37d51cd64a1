/** A FastDFS storage, and what a file backend needs. */

export type { FileBackend, NewFile, ReadableFile, StoredMetadata } from './files/file-backend.js';
export { chunksOf, readInto } from './files/file-backend.js';
export { filesOnDisk } from './files/files-on-disk.js';
export type { BackendDownload } from './handlers/download.js';
export {
  dataDirectory,
  hasRecords,
  METADATA_SUFFIX,
  RECORDS_FILE,
  TEMPORARY_DIRECTORY,
  temporaryDirectory,
} from './layout.js';
export type { StorageBackend } from './open-storage.js';
export { endOfLines } from './replication/binlog.js';
export type { StorageSession } from './replication/members.js';
export { type Storage, startStorage } from './storage-daemon.js';
export type { StorageOptions, StorageSettings } from './storage-options.js';

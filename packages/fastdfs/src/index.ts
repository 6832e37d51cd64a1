/**
 * A FastDFS client with every call of the protocol.
 *
 * @module @stevedore/fastdfs
 */
export type {
  FetchTarget,
  FileKind,
  GroupRecord,
  Metadata,
  MetadataMode,
  RemoteFileInfo,
  StorageRecord,
} from '@stevedore/protocol';
export { DEFAULT_TRACKER_PORT, type PoolStats, type RequestMessage } from '@stevedore/wire';
export type { Body } from './body.js';
export { type ClientStats, FastdfsClient } from './client.js';
export type { CallOptions } from './deadline.js';
export {
  FASTDFS_ERRORS,
  FastdfsError,
  type FastdfsErrorCode,
  type FastdfsErrorDetails,
  isNotFound,
} from './errors.js';
export {
  CHANNELS,
  type ConnectMessage,
  type FastdfsEvents,
  type PossibleOrphan,
} from './events.js';
export type { FileDescription } from './file-ids.js';
export type { AppendOptions } from './operations/appender.js';
export type { DownloadBytesOptions, DownloadOptions } from './operations/download.js';
export type { ListedFile, ListFilesOptions } from './operations/listing.js';
export type { SetMetadataOptions } from './operations/metadata.js';
export type { InfoOptions } from './operations/reading.js';
export type { SlaveOptions, UploadOptions } from './operations/upload.js';
export type { FastdfsOptions } from './options.js';
export type { Download } from './streaming.js';

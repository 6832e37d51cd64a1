export {
  checkToken,
  type FetchTarget,
  type FileKind,
  type GroupRecord,
  type Metadata,
  type MetadataMode,
  makeToken,
  type RemoteFileInfo,
  type StorageRecord,
  type TokenCheck,
} from '@stevedore/protocol';
export type { PoolStats } from '@stevedore/wire';
export { DEFAULT_TRACKER_PORT } from '@stevedore/wire';
export type { AddressMap } from './address-map.js';
export type { Body } from './body.js';
export { CHANNELS, type ConnectMessage, type RequestMessage } from './channels.js';
export { type ClientStats, FastdfsClient } from './client.js';
export { FastdfsClusters } from './clusters.js';
export type { CallOptions } from './deadline.js';
export type { FileDescription } from './description.js';
export type { Download } from './download.js';
export {
  FASTDFS_ERRORS,
  FastdfsError,
  type FastdfsErrorCode,
  type FastdfsErrorDetails,
} from './errors.js';
export type { FastdfsEvents, PossibleOrphan } from './events.js';
export type { AppendOptions } from './operations/appender.js';
export type { ListedFile, ListFilesOptions } from './operations/cluster.js';
export type { DownloadBytesOptions, DownloadOptions } from './operations/download.js';
export type { InfoOptions } from './operations/file.js';
export type { SetMetadataOptions } from './operations/metadata.js';
export type { SlaveOptions } from './operations/slave.js';
export type { UploadOptions } from './operations/upload.js';
export type { FastdfsOptions } from './options.js';
export { type SignedUrlOptions, signedUrl } from './signed-url.js';

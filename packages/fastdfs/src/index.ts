export type { RemoteFileInfo } from '@stevedore/protocol';
export { DEFAULT_TRACKER_PORT } from './address.js';
export {
  type DownloadBytesOptions,
  type DownloadOptions,
  FastdfsClient,
  type UploadOptions,
} from './client.js';
export type { CallOptions } from './deadline.js';
export type { Download } from './download.js';
export {
  FASTDFS_ERRORS,
  FastdfsError,
  type FastdfsErrorCode,
  type FastdfsErrorDetails,
} from './errors.js';
export type { FastdfsOptions } from './options.js';
export type { PoolStats } from './pools.js';

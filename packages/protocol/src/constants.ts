/**
 * Every number of the FastDFS wire format that reader and writer share: field
 * widths, limits, command numbers and status codes. Sizes are bytes unless the
 * name says otherwise. FORMAT.md beside this package describes the layouts.
 */

export const HEADER_BYTES = 10;
export const GROUP_BYTES = 16;
/** Structures between daemons (join, group records) give the group one byte more. */
export const GROUP_WIDE_BYTES = 17;
export const STORAGE_ID_BYTES = 16;
export const EXTENSION_BYTES = 6;
export const VERSION_BYTES = 8;
export const MAX_NAME_BYTES = 127;
/** Shortest name a tracker accepts in a query. */
export const MIN_NAME_BYTES = 22;
export const MAX_PORT = 65_535;

/** Width of an address field: `narrow` fits IPv4 text, `wide` (since 6.11) IPv6 too. */
export type IpWidth = 'narrow' | 'wide';
/** Address width inside replies to tracker queries, which leave no room for a NUL. */
export const QUERY_IP_BYTES: Readonly<Record<IpWidth, number>> = { narrow: 15, wide: 45 };
/** Address width everywhere else. */
export const IP_BYTES: Readonly<Record<IpWidth, number>> = { narrow: 16, wide: 46 };

/** Byte 0 to 255 of an upload that lets the storage choose the store path. */
export const ANY_STORE_PATH = 0xff;

/** The command of every reply, whoever answers. */
export const REPLY_COMMAND = 100;

export const CommandCode = {
  uploadFile: 11,
  deleteFile: 12,
  downloadFile: 14,
  queryFileInfo: 22,
  storageGetMyIp: 60,
  storageParameterReq: 75,
  storageJoin: 81,
  quit: 82,
  storageBeat: 83,
  storageReportDiskUsage: 84,
  queryStoreWithoutGroupOne: 101,
  queryFetchOne: 102,
  queryUpdate: 103,
  queryStoreWithGroupOne: 104,
  activeTest: 111,
} as const;

/** Status byte of a reply: Linux errno numbers, whatever the platform. */
export const Status = {
  ok: 0,
  notFound: 2,
  ioError: 5,
  tryAgain: 11,
  accessDenied: 13,
  badAddress: 14,
  busy: 16,
  exists: 17,
  isDirectory: 21,
  invalid: 22,
  noSpace: 28,
  notSupported: 95,
  timedOut: 110,
} as const;

const STATUS_NAMES: Readonly<Record<number, string>> = {
  2: 'ENOENT (no such file, group or server)',
  5: 'EIO (input/output error)',
  11: 'EAGAIN (try again)',
  13: 'EACCES (not joined)',
  14: 'EFAULT (impossible status)',
  16: 'EBUSY (busy)',
  17: 'EEXIST (exists already)',
  21: 'EISDIR (not a regular file)',
  22: 'EINVAL (invalid argument)',
  28: 'ENOSPC (no space left)',
  95: 'EOPNOTSUPP (not supported)',
  110: 'ETIMEDOUT (timed out)',
};

/** What a status byte means, for people. */
export function statusText(status: number): string {
  return STATUS_NAMES[status] ?? `errno ${status}`;
}

/** Status of a storage server as trackers record it. */
export const StorageStatus = {
  init: 0,
  waitSync: 1,
  syncing: 2,
  ipChanged: 3,
  deleted: 4,
  offline: 5,
  online: 6,
  active: 7,
  recovery: 9,
  none: 99,
} as const;

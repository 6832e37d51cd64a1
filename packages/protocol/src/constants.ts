/**
 * The numbers of the FastDFS wire format: field widths, limits, command numbers and status codes.
 * Sizes are bytes unless the name says otherwise. FORMAT.md of this package describes the layouts.
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
export const SLAVE_PREFIX_BYTES = 16;
export const MAX_METADATA_KEY_BYTES = 64;
export const MAX_METADATA_VALUE_BYTES = 256;
export const MAX_GROUP_SERVERS = 32;

/** Width of an address field: `narrow` fits IPv4 text, `wide` (since 6.11) IPv6 too. */
export type IpWidth = 'narrow' | 'wide';
/** Address width inside replies to tracker queries, which leave no room for a NUL. */
export const QUERY_IP_BYTES: Readonly<Record<IpWidth, number>> = { narrow: 15, wide: 45 };
/** Address width everywhere else. */
export const IP_BYTES: Readonly<Record<IpWidth, number>> = { narrow: 16, wide: 46 };

/** Store path index of an upload that lets the storage choose the path. */
export const ANY_STORE_PATH = 0xff;

export const REPLY_COMMAND = 100;

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
  notConnected: 64,
  redirect: 66,
  notSupported: 95,
  timedOut: 110,
  already: 114,
} as const;

const STATUS_NAMES: Readonly<Record<number, string>> = {
  2: 'ENOENT (no such file, storage group or server)',
  5: 'EIO (input/output error)',
  11: 'EAGAIN (try again)',
  13: 'EACCES (not joined, or without the secret of the cluster)',
  14: 'EFAULT (impossible status)',
  16: 'EBUSY (busy)',
  17: 'EEXIST (exists already)',
  21: 'EISDIR (not a regular file)',
  22: 'EINVAL (invalid argument)',
  28: 'ENOSPC (no space left)',
  64: 'ENONET (storage not active)',
  66: 'EREMOTE (the file is in another storage group)',
  95: 'EOPNOTSUPP (not supported)',
  110: 'ETIMEDOUT (timed out)',
  114: 'EALREADY (done already)',
};

export function statusText(status: number): string {
  return STATUS_NAMES[status] ?? `errno ${status}`;
}

/** Status of a storage, as trackers record it. */
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

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
/** Maximum number of servers in a group. */
export const MAX_GROUP_SERVERS = 32;

/** Width of an address field: `narrow` fits IPv4 text, `wide` (since 6.11) IPv6 too. */
export type IpWidth = 'narrow' | 'wide';
/** Address width inside replies to tracker queries, which leave no room for a NUL. */
export const QUERY_IP_BYTES: Readonly<Record<IpWidth, number>> = { narrow: 15, wide: 45 };
/** Address width everywhere else. */
export const IP_BYTES: Readonly<Record<IpWidth, number>> = { narrow: 16, wide: 46 };

/** Store path index of an upload that lets the storage choose the path. */
export const ANY_STORE_PATH = 0xff;

/** The command of every reply. */
export const REPLY_COMMAND = 100;

export const CommandCode = {
  storageReportServerId: 9,
  uploadFile: 11,
  deleteFile: 12,
  setMetadata: 13,
  downloadFile: 14,
  getMetadata: 15,
  syncCreateFile: 16,
  syncDeleteFile: 17,
  syncUpdateFile: 18,
  syncCreateLink: 19,
  createLink: 20,
  uploadSlaveFile: 21,
  queryFileInfo: 22,
  uploadAppenderFile: 23,
  appendFile: 24,
  syncAppendFile: 25,
  fetchOnePathBinlog: 26,
  trunkAllocSpace: 27,
  trunkAllocConfirm: 28,
  trunkFreeSpace: 29,
  trunkSyncBinlog: 30,
  trunkGetBinlogSize: 31,
  trunkDeleteBinlogMarks: 32,
  trunkTruncateBinlogFile: 33,
  modifyFile: 34,
  syncModifyFile: 35,
  truncateFile: 36,
  syncTruncateFile: 37,
  regenerateAppenderFilename: 38,
  syncRenameFile: 40,
  trackerJoinLeader: 58,
  storageChangeStatus: 59,
  storageGetMyIp: 60,
  trackerGetSysFilesStart: 61,
  trackerGetSysFilesEnd: 62,
  trackerGetOneSysFile: 63,
  trackerGetStatus: 64,
  trackerPingLeader: 65,
  trackerNotifyNextLeader: 66,
  trackerCommitNextLeader: 67,
  trackerNotifyReselectLeader: 68,
  fetchStorageIds: 69,
  getServerId: 70,
  getStorageStatus: 71,
  storageFetchTrunkFid: 72,
  storageReportTrunkFid: 73,
  storageReportTrunkFree: 74,
  storageParameterReq: 75,
  storageReportStatus: 76,
  storageChangelogReq: 77,
  storageReportIpChanged: 78,
  storageSyncDestQuery: 79,
  storageJoin: 81,
  quit: 82,
  storageBeat: 83,
  storageReportDiskUsage: 84,
  storageReplicaChange: 85,
  storageSyncSrcReq: 86,
  storageSyncDestReq: 87,
  storageSyncNotify: 88,
  storageSyncReport: 89,
  listOneGroup: 90,
  listAllGroups: 91,
  listStorage: 92,
  deleteStorage: 93,
  setTrunkServer: 94,
  getLeader: 95,
  trackerClusterStat: 96,
  storageClusterStat: 97,
  storageVolumeStat: 98,
  queryStoreWithoutGroupOne: 101,
  queryFetchOne: 102,
  queryUpdate: 103,
  queryStoreWithGroupOne: 104,
  queryFetchAll: 105,
  queryStoreWithoutGroupAll: 106,
  queryStoreWithGroupAll: 107,
  deleteGroup: 108,
  getGroupName: 109,
  activeTest: 111,
  /** Not of FastDFS; see storage-migration.ts. */
  migrationControl: 210,
  migrationRoom: 211,
  /** Not of FastDFS; see authentication.ts. */
  authBegin: 220,
  authProve: 221,
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
  notConnected: 64,
  redirect: 66,
  notSupported: 95,
  timedOut: 110,
  already: 114,
} as const;

const STATUS_NAMES: Readonly<Record<number, string>> = {
  2: 'ENOENT (no such file, group or server)',
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
  66: 'EREMOTE (the file is in another group)',
  95: 'EOPNOTSUPP (not supported)',
  110: 'ETIMEDOUT (timed out)',
  114: 'EALREADY (done already)',
};

/** A readable text for a status byte. */
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

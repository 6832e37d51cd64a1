export { ProtocolError } from './bytes.js';
export * from './command.js';
export * from './commands/authentication.js';
export { activeTest, addressText, type FileName, quit } from './commands/shared.js';
export * from './commands/storage-file.js';
export * from './commands/storage-metadata.js';
export * from './commands/storage-migration.js';
export * from './commands/storage-peer.js';
export * from './commands/storage-sync.js';
export {
  beat,
  type ChangeList,
  type CountedOperation,
  type DiskUsage,
  decodeStatistics,
  emptyStatistics,
  encodeStatistics,
  getMyIp,
  type JoinRequest,
  join,
  type OperationCount,
  type Parameters,
  parameterReq,
  reportDiskUsage,
  type ServerBrief,
  type StorageStatistics,
} from './commands/storage-tracker.js';
export {
  deleteGroup,
  deleteStorage,
  fetchStorageIds,
  type GroupAndHost,
  getGroupName,
  getLeader,
  getServerId,
  getStorageStatus,
  setTrunkServer,
  trackerGetStatus,
} from './commands/tracker-admin.js';
export * from './commands/tracker-list.js';
export * from './commands/tracker-query.js';
export * from './commands/tracker-stats.js';
export {
  ANY_STORE_PATH,
  HEADER_BYTES,
  type IpWidth,
  MAX_GROUP_SERVERS,
  MAX_METADATA_KEY_BYTES,
  MAX_METADATA_VALUE_BYTES,
  MAX_NAME_BYTES,
  MAX_PORT,
  REPLY_COMMAND,
  SLAVE_PREFIX_BYTES,
  STORAGE_ID_BYTES,
  Status,
  StorageStatus,
  statusText,
} from './constants.js';
export * from './errors.js';
export * from './file-id.js';
export type { Codec } from './layout.js';
export * from './slice-id.js';
export * from './token.js';
export {
  encodeEnd,
  endBytes,
  localHeaderBytes,
  MAX_ENTRIES,
  memberBytes,
  mostEntryBytes,
  parseTrunkDirectory,
  parseTrunkEnd,
  parseTrunkTask,
  TAIL_BYTES,
  type TrunkEnd,
  type TrunkEntry,
  type TrunkMember,
  writeDirectoryEntry,
  writeLocalHeader,
} from './trunk/archive.js';
export * from './trunk/slice-table.js';
export { unixTime } from './unix-time.js';

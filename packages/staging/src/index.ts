export * from './annealing.js';
export { BLOCK_BYTES, BlockChecksums, blockCrc, isBlockListOf } from './block-checksums.js';
export { MERGE_CHANNEL, type MergeMessage } from './channels.js';
export {
  MAX_GROUP_BYTES,
  MAX_NAME_BYTES as MAX_FILE_NAME_BYTES,
  MAX_TYPE_BYTES,
} from './constants.js';
export { type DirectTrunk, directTrunk } from './direct-trunk.js';
export { DirectoryLock } from './directory-lock.js';
export * from './errors.js';
export { fileIdOf } from './file-id.js';
export type { FileRow, TrunkRow } from './filemap.js';
export type { Counters } from './filemap-counters.js';
export type { FsckProblem, FsckReport } from './fsck.js';
export { formatKey, originOfKey, parseKey, timeOfKey } from './key.js';
export type { MergeStats } from './merge-task.js';
export type { OrphanStats } from './orphan-watch.js';
export type { Orphan, PossibleOrphan } from './orphans.js';
export type { DamageEvent, DamageStats } from './quarantine.js';
export { seededRandom } from './random.js';
export type { FileMeta, NewFile } from './records.js';
export type { RoomStats } from './room.js';
export type { Damage, ScrubOptions, ScrubReport } from './scrub.js';
export type { ScrubStats } from './scrub-watch.js';
export type { SpoolWriter } from './spool.js';
export {
  Staging,
  type StagingEvents,
  type StagingStats,
} from './staging.js';
export type { StagingOptions } from './staging-options.js';
export type { Copies, ListedFile, TrunkSource, TrunkStore } from './trunk-store.js';
export type { UpkeepOptions } from './upkeep.js';

export * from './annealing.js';
export { BLOCK_BYTES, BlockChecksums, blockCrc, isBlockListOf } from './block-checksums.js';
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
/** @public */
export type { FsckProblem, FsckReport } from './fsck.js';
export { formatKey, parseKey } from './key.js';
export type { OrphanStats } from './orphan-watch.js';
export type { DamageEvent, DamageStats } from './quarantine.js';
export type { FileMeta, NewFile } from './records.js';
export type { RoomStats } from './room.js';
/** @public */
export type { Damage, ScrubOptions, ScrubReport } from './scrub.js';
export type { ScrubStats } from './scrub-watch.js';
export type { SpoolWriter } from './spool.js';
export { Staging } from './staging.js';
export type { StagingOptions } from './staging-options.js';
export type { Copies, ListedFile, TrunkSource, TrunkStore } from './trunk-store.js';
export type { UpkeepOptions } from './upkeep.js';

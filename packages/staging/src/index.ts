export type { DamageEvent, StagingEvents, TrunkEvent } from './changes.js';
export {
  BLOCK_BYTES,
  BlockChecksums,
  blockCrc,
  isBlockListOf,
} from './container/block-checksums.js';
export type { FileFacts, FileMeta, NewFile } from './container/records.js';
export { smallFile, spooledFile } from './container/records.js';
export type { SpoolWriter } from './container/spool.js';
export type { UnfinishedUpload as StagedUpload } from './container/unfinished.js';
export { HeldCopies, type HeldStats } from './copies/held-copies.js';
export type { HeldIndex } from './copies/held-index.js';
export { type ReturnedFile, ReturnedFiles } from './copies/returned-files.js';
export type {
  Partner,
  StagedCopiesOptions,
} from './copies/staged-copies.js';
export type { TakenOver } from './copies/take-over.js';
export { DirectoryLock } from './directory-lock.js';
export * from './errors.js';
export { aboutOf } from './filemap/about.js';
export { type AdoptedFile, type FileRow, isMerged, type TrunkRow } from './filemap/filemap.js';
export type { Outbox, OutboxEntry, PublishedFile } from './filemap/outbox.js';
export { formatKey, parseKey } from './key.js';
export * from './merge/annealing.js';
export { latestIdAt } from './merge/joining.js';
export { type DirectTrunk, directTrunk, fileIdOf, sliceIdOf } from './merge/trunk-plan.js';
export type { ListedFile, Replicas, TrunkSource, TrunkStore } from './merge/trunk-store.js';
export { readAbout, readTrunkDirectory } from './merge/trunk-store.js';
export { writeTrunk } from './merge/write-trunk.js';
export { MARK_BYTES, partIn, partMark } from './once.js';
export type { AdoptedTrunk, AdoptedTrunks } from './repair/adoption.js';
/** @public */
export type { FsckProblem, FsckReport } from './repair/fsck.js';
/** @public */
export type { DamageStats } from './repair/quarantine.js';
/** @public */
export type { Damage, ScrubOptions, ScrubReport, ScrubStats } from './repair/scrub.js';
export type { UpkeepOptions } from './repair/sound-bytes.js';
export { blocksOf, learnBlocks } from './repair/sound-bytes.js';
export { type ReadableStaging, SiblingView } from './sibling-view.js';
export { Staging, type StagingStats } from './staging.js';
export type { StagingOptions } from './staging-options.js';

/**
 * The SDK: `open()` opens a store of files.
 *
 * @module @stevedore/client
 */
export type {
  Damage,
  DamageEvent,
  DamageStats,
  FsckProblem,
  FsckReport,
  ScrubOptions,
  ScrubReport,
  ScrubStats,
  TrunkEvent,
  UpkeepOptions,
} from '@stevedore/staging';
export { isStoreError, StoreError, type StoreErrorCode } from '@stevedore/staging';
export {
  type AffinityFunction,
  type AffinityRequest,
  byForm,
  byPage,
  byPathPrefix,
  firstOf,
} from './affinity.js';
export {
  type DeleteMessage,
  type GetMessage,
  type PutMessage,
  type ReadMessage,
  STORE_CHANNELS,
  type TrunkMessage,
} from './channels.js';
export type { StorageMember } from './cluster.js';
export type { OpenOptions } from './given-options.js';
export { open } from './open.js';
export type { CopyAtStorage, DiskPlace, FilePlaces, TrunkPlace } from './places.js';
export { recordSpans, type SpanLike, type TracerLike } from './spans.js';
export type * from './types.js';

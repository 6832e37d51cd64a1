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
export type { OpenOptions } from './given-options.js';
export {
  type AffinityFunction,
  type AffinityRequest,
  byForm,
  byPage,
  byPathPrefix,
  firstOf,
} from './put/affinity.js';
export {
  type DeleteMessage,
  type GetMessage,
  type PutMessage,
  type ReadMessage,
  STORE_CHANNELS,
  type TrunkMessage,
} from './store/channels.js';
export type { StorageMember } from './store/cluster.js';
export { open } from './store/open.js';
export type { CopyAtStorage, DiskPlace, FilePlaces, TrunkPlace } from './store/places.js';
export type * from './store/types.js';

/** Tracker and storage daemons that speak the FastDFS protocol. */
export { type AccessOptions, StartError, type WithoutSecret } from '@stevedore/wire';
export {
  type NodeStorage as Storage,
  type NodeStorageOptions as StorageOptions,
  startStorage,
} from './node/start-storage.js';
export type { TierOptions } from './tiers/tier-options.js';
export type { TrackerOptions } from './tracker/options.js';
export { startTracker, type Tracker } from './tracker/tracker.js';

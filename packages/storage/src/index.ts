/** Tracker and storage daemons that speak the FastDFS protocol. */
export { type AccessOptions, StartError, type WithoutSecret } from '@stevedore/wire';
export type { StorageOptions } from './storage/options.js';
export { type Storage, startStorage } from './storage/storage.js';
export type { TierOptions } from './tiers/tier-options.js';
export type { TrackerOptions } from './tracker/options.js';
export { startTracker, type Tracker } from './tracker/tracker.js';

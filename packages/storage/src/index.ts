/** Tracker and storage daemons that speak the FastDFS protocol. */
export { StartError } from './errors.js';
export type { AccessOptions, WithoutSecret } from './net/access.js';
export type { StorageOptions } from './storage/options.js';
export { type Storage, startStorage } from './storage/storage.js';
export type { TierOptions } from './tiers/tier-options.js';
export type { TrackerOptions } from './tracker/options.js';
export { startTracker, type Tracker } from './tracker/tracker.js';

/** Tracker and storage daemons that speak the FastDFS protocol. */
export { type Environment, systemEnvironment } from './environment.js';
export { AuthenticationError, OptionError, StartError } from './errors.js';
export { type IoServer, startIoServer } from './io-server/io-server.js';
export type { IoServerOptions } from './io-server/options.js';
export type { IoServerStatus } from './io-tier/known-servers.js';
export { type AskOptions, askMigration, NoMigrationError } from './migration/ask.js';
export { type ClassStatus, type MigrationStatus, prometheusText } from './migration/status.js';
export type { AccessOptions, WithoutSecret } from './net/access.js';
export type { ConnectionOptions } from './options.js';
export type { StorageOptions } from './storage/options.js';
export { type Storage, startStorage } from './storage/storage.js';
export type { TierOptions } from './tiers/tier-options.js';
export type { TrackerOptions } from './tracker/options.js';
export { startTracker, type Tracker, type TrackerOverview } from './tracker/tracker.js';

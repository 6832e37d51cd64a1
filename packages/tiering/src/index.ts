/** Keeps small files as rows beside their metadata, and moves them. */
export type { MigrationStatus } from './migration/status.js';
export type { TierOptions } from './tier-options.js';
export { Tiering } from './tiering.js';

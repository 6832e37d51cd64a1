/** A file-level cache bounded by bytes; see README.md. */
export type { Placed } from './extent.js';
export * from './file-cache.js';
export type { Flight } from './flights.js';
export { isWhole, loadGroup, type Member } from './group-load.js';
export type { FileCacheStats } from './stats.js';

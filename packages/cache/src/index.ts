/** A file-level cache bounded by bytes; see README.md. */
export { type Extent, extentAround, type Placed } from './extent.js';
export * from './file-cache.js';
export type { Flight, Load } from './flights.js';
export { type GroupLoad, isWhole, loadGroup, type Member } from './group-load.js';
export type { ReadAheadStats } from './read-ahead.js';
export type { FileCacheStats } from './stats.js';

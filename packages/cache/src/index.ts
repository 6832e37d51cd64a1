/** A file-level cache bounded by bytes; see README.md. */

export { FileCache, type FileCacheOptions } from './file-cache.js';
export type { Flight, Load } from './flights.js';
export { isWhole, loadGroup, type Member, type Placed } from './group-load.js';
export type { FileCacheStats } from './stats.js';

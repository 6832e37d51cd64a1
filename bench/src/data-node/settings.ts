import type { StorageOptions } from '@stevedore/node';
import { AHEAD_BUFFER_BYTES, CACHE_BYTES, READ_AHEAD_BYTES } from './plan.js';

/**
 * The paper's four settings of a data node, and what anybody has without them: the
 * system's page cache, as large as our cache.
 */

export const SETTINGS = ['neither', 'page-cache', 'cache', 'co-location', 'both'] as const;
export type Setting = (typeof SETTINGS)[number];

/** scattered: every file of a group in another trunk. co-located: side by side. */
export type Layout = 'scattered' | 'co-located';

/** measured: this machine's disk, past the page cache. slowed: the same with the delay model. */
export const DISKS = ['measured', 'slowed'] as const;
export type DiskKind = (typeof DISKS)[number];

export function layoutOf(setting: Setting): Layout {
  return setting === 'co-location' || setting === 'both' ? 'co-located' : 'scattered';
}

export interface CacheOptions
  extends Required<Pick<StorageOptions, 'cacheBytes' | 'readAheadBytes' | 'readAheadShare'>> {
  /** Of the page cache below the storage; 0: none. */
  readonly pageCacheBytes: number;
}

export function cacheOptionsOf(setting: Setting, cacheBytes = CACHE_BYTES): CacheOptions {
  const none = { cacheBytes: 0, readAheadBytes: 0, readAheadShare: 0.25, pageCacheBytes: 0 };
  switch (setting) {
    case 'neither':
      return none;
    case 'page-cache':
      return { ...none, pageCacheBytes: cacheBytes };
    case 'cache':
      return { ...none, cacheBytes };
    case 'co-location':
      // What was read along has to be somewhere until it is asked for; nothing else is kept.
      return {
        ...none,
        cacheBytes: AHEAD_BUFFER_BYTES,
        readAheadBytes: READ_AHEAD_BYTES,
        readAheadShare: 1,
      };
    case 'both':
      return { ...none, cacheBytes, readAheadBytes: READ_AHEAD_BYTES };
  }
}

import type { StorageOptions } from '@stevedore/storage';
import { AHEAD_BUFFER_BYTES, CACHE_BYTES, READ_AHEAD_BYTES } from './plan.js';

/** The paper's four settings of a data node. */

export const SETTINGS = ['neither', 'cache', 'co-location', 'both'] as const;
export type Setting = (typeof SETTINGS)[number];

/** scattered: every file of a group in another trunk. co-located: side by side. */
export type Layout = 'scattered' | 'co-located';

/** measured: this machine's disk, past the page cache. slowed: the same with the delay model. */
export const DISKS = ['measured', 'slowed'] as const;
export type DiskKind = (typeof DISKS)[number];

export function layoutOf(setting: Setting): Layout {
  return setting === 'neither' || setting === 'cache' ? 'scattered' : 'co-located';
}

export type CacheOptions = Required<
  Pick<StorageOptions, 'cacheBytes' | 'readAheadBytes' | 'readAheadShare'>
>;

export function cacheOptionsOf(setting: Setting, cacheBytes = CACHE_BYTES): CacheOptions {
  const readAheadShare = 0.25;
  switch (setting) {
    case 'neither':
      return { cacheBytes: 0, readAheadBytes: 0, readAheadShare };
    case 'cache':
      return { cacheBytes, readAheadBytes: 0, readAheadShare };
    case 'co-location':
      // What was read along has to be somewhere until it is asked for; nothing else is kept.
      return {
        cacheBytes: AHEAD_BUFFER_BYTES,
        readAheadBytes: READ_AHEAD_BYTES,
        readAheadShare: 1,
      };
    case 'both':
      return { cacheBytes, readAheadBytes: READ_AHEAD_BYTES, readAheadShare };
  }
}

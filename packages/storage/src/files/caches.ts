import { FileCache } from '@stevedore/cache';
import { type SliceEntry, TRUNK_EXTENSION } from '@stevedore/protocol';
import type { StorageSettings } from '../storage-options.js';

/**
 * The storage's cache. The key of a file is its path; that of a slice is its trunk's path and its
 * whole directory entry, so a forged slice id finds nothing.
 */
export function storageCache(options: StorageSettings): FileCache {
  return new FileCache({
    maxBytes: options.cacheBytes,
    filter: options.cacheFilter,
    policy: options.cachePolicy,
    aheadShare: options.readAheadBytes > 0 ? options.readAheadShare : 0,
  });
}

export function sliceKey(trunkPath: string, { offset, size, crc32 }: SliceEntry): string {
  return `${trunkPath}@${offset}-${size}-${crc32}`;
}

/** Call it whenever a file was created, renamed, removed or changed. */
export function forgetPath(cache: FileCache, path: string): void {
  cache.delete(path);
  if (path.endsWith(`.${TRUNK_EXTENSION}`)) cache.deletePrefix(`${path}@`);
}

import { FileCache } from '@stevedore/cache';
import { type SliceEntry, TRUNK_EXTENSION } from '@stevedore/protocol';

/**
 * The storage's cache: ids of what is in it. A file is called by its path, a slice by
 * its trunk's path and all that the trunk's directory says of it, so that a forged
 * slice id finds nothing here.
 */

export interface StorageCacheOptions {
  readonly cacheBytes: number;
  readonly cacheFilter: boolean;
  readonly readAheadBytes: number;
  readonly readAheadShare: number;
}

export function storageCache(options: StorageCacheOptions): FileCache {
  return new FileCache({
    maxBytes: options.cacheBytes,
    filter: options.cacheFilter,
    aheadShare: options.readAheadBytes > 0 ? options.readAheadShare : 0,
  });
}

export function sliceKey(trunkPath: string, { offset, size, crc32 }: SliceEntry): string {
  return `${trunkPath}@${offset}-${size}-${crc32}`;
}

/** To be called when a file's name was made, changed or removed, or its bytes changed. */
export function forgetPath(cache: FileCache, path: string): void {
  cache.delete(path);
  if (path.endsWith(`.${TRUNK_EXTENSION}`)) cache.deletePrefix(`${path}@`);
}

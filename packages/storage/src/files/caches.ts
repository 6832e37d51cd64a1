import { FileCache } from '@stevedore/cache';
import { type SliceEntry, TRUNK_EXTENSION } from '@stevedore/protocol';
import type { StorageSettings } from '../storage-options.js';

/** An LRU cache bounded by bytes; `bytesOf` tells the size of a value. */
export class ByteBoundedCache<Value> {
  readonly #maxBytes: number;
  readonly #bytesOf: (value: Value) => number;
  /** Least recently used first. */
  readonly #entries = new Map<string, { readonly value: Value; readonly bytes: number }>();
  #bytes = 0;

  constructor(maxBytes: number, bytesOf: (value: Value) => number) {
    this.#maxBytes = maxBytes;
    this.#bytesOf = bytesOf;
  }

  get(key: string): Value | undefined {
    const entry = this.#entries.get(key);
    if (!entry) return undefined;
    this.#entries.delete(key);
    this.#entries.set(key, entry);
    return entry.value;
  }

  /** Call it again when the value has grown. */
  set(key: string, value: Value): void {
    this.delete(key);
    const bytes = this.#bytesOf(value);
    if (bytes > this.#maxBytes) return;
    this.#entries.set(key, { value, bytes });
    this.#bytes += bytes;
    for (const oldest of this.#entries.keys()) {
      if (this.#bytes <= this.#maxBytes) return;
      this.delete(oldest);
    }
  }

  delete(key: string): void {
    const entry = this.#entries.get(key);
    if (!entry) return;
    this.#entries.delete(key);
    this.#bytes -= entry.bytes;
  }
}

/**
 * The storage's cache. The key of a file is its path; that of a slice is its trunk's path and its
 * whole directory entry, so a forged slice id finds nothing.
 */
export function storageCache(options: StorageSettings): FileCache {
  return new FileCache({
    maxBytes: options.cacheBytes,
    filter: options.cacheFilter,
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

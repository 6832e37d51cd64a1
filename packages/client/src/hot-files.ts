import { LRUCache } from 'lru-cache';
import type { CachedFile } from './types.js';

/**
 * Bytes of files that are on this disk and asked for again and again: they are not
 * read and held against their CRC-32 each time, nor looked up in the FileMap. A file is
 * kept from its second reading on, so that what is read once evicts nothing. A key never
 * means other bytes; whoever deletes a file forgets it here before that is answered,
 * and nothing is kept that the FileMap does not know at that moment.
 */

const MAX_BYTES = 32 * 2 ** 20;
/** Keys of the latest first readings. */
const MAX_SEEN = 16_384;
/** What a kept file costs beside its bytes. */
const ENTRY_BYTES = 200;

export interface HotFile extends CachedFile {
  /** Unix milliseconds; Infinity for a file without end. */
  readonly expiresAt: number;
}

export class HotFiles {
  readonly #files: LRUCache<string, HotFile>;
  readonly #seen = new LRUCache<string, true>({ max: MAX_SEEN });

  constructor(maxBytes = MAX_BYTES) {
    this.#files = new LRUCache({
      maxSize: maxBytes,
      maxEntrySize: Math.ceil(maxBytes / 16),
      sizeCalculation: ({ bytes }) => bytes.length + ENTRY_BYTES,
    });
  }

  get(key: string): HotFile | undefined {
    return this.#files.get(key);
  }

  /**
   * The file was read from the disk, and is what was stored. `isThere` says whether it
   * still is: it may have been deleted while it was read.
   */
  noteRead(key: string, file: HotFile, isThere: () => boolean): void {
    if (!this.#seen.has(key)) this.#seen.set(key, true);
    else if (isThere()) {
      this.#seen.delete(key);
      this.#files.set(key, file);
    }
  }

  forget(key: string): void {
    this.#files.delete(key);
  }
}

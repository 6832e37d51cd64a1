import { LRUCache } from 'lru-cache';

/**
 * Bytes of files that are on this disk and asked for again and again: they are not
 * read and held against their CRC-32 each time. A file is kept from its second
 * reading on, so that what is read once evicts nothing. A key never means other
 * bytes, and whether there is such a file is asked of the FileMap first; so nothing
 * kept here can be wrong.
 */

const MAX_BYTES = 32 * 2 ** 20;
/** Keys of the latest first readings. */
const MAX_SEEN = 16_384;
/** What a kept file costs beside its bytes. */
const ENTRY_BYTES = 200;

export class HotFiles {
  readonly #files: LRUCache<string, Buffer>;
  readonly #seen = new LRUCache<string, true>({ max: MAX_SEEN });

  constructor(maxBytes = MAX_BYTES) {
    this.#files = new LRUCache({
      maxSize: maxBytes,
      maxEntrySize: Math.ceil(maxBytes / 16),
      sizeCalculation: (bytes) => bytes.length + ENTRY_BYTES,
    });
  }

  get(key: string): Buffer | undefined {
    return this.#files.get(key);
  }

  /** The file was read from the disk, and is what was stored. */
  noteRead(key: string, bytes: Buffer): void {
    if (this.#seen.has(key)) {
      this.#seen.delete(key);
      this.#files.set(key, bytes);
    } else {
      this.#seen.set(key, true);
    }
  }

  forget(key: string): void {
    this.#files.delete(key);
  }
}

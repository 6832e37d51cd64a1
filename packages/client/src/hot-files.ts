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
const ENTRY_BYTES = 250;
/** For the head of an answer; one that is longer is sent apart. */
const ROOM_BYTES = 1024;
/** Larger files are sent in pieces anyway. */
const MAX_FRAMED_BYTES = 64 * 2 ** 10;

export interface HotFile extends CachedFile {
  /** False once it was forgotten, or made way for others. */
  isKept: boolean;
}

/** True for a file that `HotFiles` gave, and would give again. */
export function isHot(file: CachedFile): boolean {
  return (file as HotFile).isKept;
}

export class HotFiles {
  readonly #files: LRUCache<string, HotFile>;
  readonly #seen = new LRUCache<string, true>({ max: MAX_SEEN });

  constructor(maxBytes = MAX_BYTES) {
    this.#files = new LRUCache({
      maxSize: maxBytes,
      maxEntrySize: Math.ceil(maxBytes / 16),
      dispose: (file) => {
        file.isKept = false;
      },
      sizeCalculation: ({ bytes }) => bytes.length + ROOM_BYTES + ENTRY_BYTES,
    });
  }

  get(key: string): HotFile | undefined {
    return this.#files.get(key);
  }

  /**
   * The file was read from the disk, and is what was stored. `isThere` says whether it
   * still is: it may have been deleted while it was read. Gives the bytes, in the memory
   * in which they are kept.
   */
  noteRead(key: string, bytes: Buffer, expiresAt: number, isThere: () => boolean): Buffer {
    if (!this.#seen.has(key)) this.#seen.set(key, true);
    else if (isThere()) {
      this.#seen.delete(key);
      const file = framed(bytes);
      this.#files.set(key, { ...file, expiresAt, isKept: true });
      return file.bytes;
    }
    return bytes;
  }

  forget(key: string): void {
    this.#files.delete(key);
  }
}

/** Small files with room before them. */
function framed(bytes: Buffer): Pick<CachedFile, 'bytes' | 'room'> {
  if (bytes.length > MAX_FRAMED_BYTES) return { bytes };
  const memory = Buffer.allocUnsafeSlow(ROOM_BYTES + bytes.length);
  memory.set(bytes, ROOM_BYTES);
  return {
    bytes: memory.subarray(ROOM_BYTES),
    room: { memory, size: ROOM_BYTES, owner: undefined, isBusy: false },
  };
}

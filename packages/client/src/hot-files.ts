import { LRUCache } from 'lru-cache';
import type { CachedFile } from './types.js';

/**
 * Hot files of this disk in memory, so that they are not read, checked and looked up in the
 * FileMap each time. A file is kept from its second read on, so that files read once evict
 * nothing. A key always means the same bytes. Deleting a file removes it here before the deletion
 * is answered, and a file that the FileMap no longer knows is not kept.
 */

const MAX_BYTES = 32 * 2 ** 20;
/** Keys of the latest first readings. */
const MAX_SEEN = 16_384;
/** Memory of an entry in addition to its bytes. */
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

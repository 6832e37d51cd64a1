import { type FileCache, type Flight, isWhole, loadGroup } from '@stevedore/cache';
import { type SliceId, Status } from '@stevedore/protocol';
import { StatusError } from '../errors.js';
import { sliceKey } from './file-cache.js';
import type { OpenFile } from './open-files.js';
import type { Slices } from './slices.js';
import { SpareBuffers } from './spare-buffers.js';

/**
 * Reads whole slices through the cache. On a miss one read takes the slice and, if
 * that has paid so far, the members of its affinity group around it, which lie side
 * by side in the trunk: they are kept for when they are asked for. Every slice is held
 * against its CRC-32 before it is kept.
 */

export interface SliceReaderParts {
  readonly slices: Slices;
  readonly cache: FileCache;
  /** Bytes read at a time for a group; 0 reads slices alone. */
  readonly readAheadBytes: number;
  readonly onError: (error: Error) => void;
}

/** Memory for extents that is kept for the next ones, in units of `readAheadBytes`. */
const MAX_SPARE = 8;

export class SliceReader {
  readonly #parts: SliceReaderParts;
  readonly #spare: SpareBuffers;

  constructor(parts: SliceReaderParts) {
    this.#parts = parts;
    this.#spare = new SpareBuffers(MAX_SPARE * parts.readAheadBytes);
  }

  /** At once if it is in memory. Status 2 if there is no such slice. */
  read(slice: SliceId, trunkPath: string): Buffer | Promise<Buffer> {
    const key = sliceKey(trunkPath, slice);
    return this.#parts.cache.find(key) ?? this.#fetch(key, slice, trunkPath);
  }

  async #fetch(key: string, slice: SliceId, trunkPath: string): Promise<Buffer> {
    const bytes = await this.#parts.cache.fetch(key, (flight) =>
      this.#load(slice, trunkPath, flight),
    );
    if (!bytes) throw new StatusError(Status.notFound, 'no such slice');
    return bytes;
  }

  async #load(slice: SliceId, trunkPath: string, flight: Flight): Promise<Buffer | undefined> {
    const trunk = await this.#open(slice, trunkPath);
    if (!trunk) return undefined;
    try {
      return (
        (await this.#loadGroup(slice, trunkPath, trunk, flight)) ??
        (await this.#loadAlone(slice, trunkPath, trunk, flight))
      );
    } finally {
      trunk.release();
    }
  }

  async #open(slice: SliceId, trunkPath: string): Promise<OpenFile | undefined> {
    try {
      return await this.#parts.slices.open(slice, trunkPath);
    } catch (error) {
      if (error instanceof StatusError && error.status === Status.notFound) return undefined;
      throw error;
    }
  }

  async #loadAlone(
    slice: SliceId,
    trunkPath: string,
    trunk: OpenFile,
    flight: Flight,
  ): Promise<Buffer> {
    const bytes = await readExactly(trunk, slice.offset, slice.size);
    if (!isWhole(slice, bytes)) {
      // The client sees it too and asks another storage.
      this.#parts.onError(new Error(`${sliceKey(trunkPath, slice)} has another CRC-32`));
      flight.doNotKeep();
    }
    return bytes;
  }

  /** Undefined if the slice is to be read alone. */
  async #loadGroup(
    slice: SliceId,
    trunkPath: string,
    trunk: OpenFile,
    flight: Flight,
  ): Promise<Buffer | undefined> {
    const { slices, cache, readAheadBytes } = this.#parts;
    if (readAheadBytes === 0) return undefined;
    // The one that deletions are marked in from now on; without one there is no group.
    const directory = slices.knownDirectory(trunkPath);
    const group = directory?.groupAround(slice.offset, readAheadBytes);
    if (!directory || !group) return undefined;
    return loadGroup({
      cache,
      flight,
      source: trunkPath,
      members: group.members.map((member) => {
        const { offset, size, crc32 } = member;
        const alive = directory.holds(member);
        return { offset, size, crc32, alive, id: sliceKey(trunkPath, member) };
      }),
      asked: group.asked,
      maxBytes: readAheadBytes,
      read: (offset, bytes) => readInto(this.#spare.take(bytes), trunk, offset),
      // A read that failed has lost its memory: it may still be written to.
      release: (bytes) => this.#spare.giveBack(bytes),
    });
  }
}

/** In memory of its own, not of Node's pool: what is kept would keep its neighbours there. */
export function readExactly(opened: OpenFile, offset: number, size: number): Promise<Buffer> {
  return readInto(Buffer.allocUnsafeSlow(size), opened, offset);
}

async function readInto(target: Buffer, opened: OpenFile, offset: number): Promise<Buffer> {
  const read = await opened.file.readAt(target, offset);
  if (read < target.length) throw new Error(`a file is ${target.length - read} bytes short`);
  return target;
}

import { type Flight, isWhole, loadGroup } from '@stevedore/cache';
import type { SliceEntry } from '@stevedore/protocol';
import { sliceKey } from '../files/caches.js';
import { readInto } from '../files/file-backend.js';
import type { OpenFile } from '../files/open-files.js';
import { ifThere, notFound } from '../refusals.js';
import type { Slices, SlicesParts } from './slices.js';

/**
 * Reads whole slices through the cache. A miss reads the slice and, while that pays off, the
 * adjacent members of its affinity group in the same read, and caches them too. Every slice is
 * checked against its CRC-32 before it is cached.
 */

export interface SliceReaderParts extends SlicesParts {
  readonly slices: Slices;
}

/** Unused buffers of `readAheadBytes` that are kept: allocating one would cost more than a read. */
const MAX_SPARE = 8;

export class SliceReader {
  readonly #parts: SliceReaderParts;
  readonly #spare: Buffer[] = [];

  constructor(parts: SliceReaderParts) {
    this.#parts = parts;
  }

  /** Synchronous if the slice is in memory. Status 2 if there is no such slice. */
  read(slice: SliceEntry, trunkPath: string): Buffer | Promise<Buffer> {
    const key = sliceKey(trunkPath, slice);
    return this.#parts.cache.find(key) ?? this.#fetch(key, slice, trunkPath);
  }

  async #fetch(key: string, slice: SliceEntry, trunkPath: string): Promise<Buffer> {
    const bytes = await this.#parts.cache.fetch(key, (flight) =>
      this.#load(slice, trunkPath, flight),
    );
    if (!bytes) throw notFound('no such slice');
    return bytes;
  }

  async #load(slice: SliceEntry, trunkPath: string, flight: Flight): Promise<Buffer | undefined> {
    const { slices } = this.#parts;
    const trunk = await ifThere(slices.open(slice, trunkPath));
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

  async #loadAlone(
    slice: SliceEntry,
    trunkPath: string,
    trunk: OpenFile,
    flight: Flight,
  ): Promise<Buffer> {
    const bytes = await readInto(Buffer.allocUnsafeSlow(slice.size), trunk.file, slice.offset);
    if (!isWhole(slice, bytes)) {
      // The client detects it too and asks another storage.
      this.#parts.settings.onError(new Error(`${sliceKey(trunkPath, slice)} has another CRC-32`));
      flight.doNotKeep();
    }
    return bytes;
  }

  /** Undefined if the slice has to be read alone. */
  async #loadGroup(
    slice: SliceEntry,
    trunkPath: string,
    trunk: OpenFile,
    flight: Flight,
  ): Promise<Buffer | undefined> {
    const { slices, cache, settings } = this.#parts;
    const { readAheadBytes } = settings;
    if (readAheadBytes === 0) return undefined;
    // Deletions during the read are marked in this directory; without one, read no group.
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
      read: (offset, bytes) => {
        // A slice may be larger than what is read ahead.
        const spare = bytes > readAheadBytes ? undefined : this.#spare.pop();
        const buffer = spare ?? Buffer.allocUnsafeSlow(Math.max(bytes, readAheadBytes));
        return readInto(buffer.subarray(0, bytes), trunk.file, offset);
      },
      // Not after a failed read, which may still write to its buffer.
      release: ({ buffer }) => {
        const isReusable = buffer.byteLength === readAheadBytes && this.#spare.length < MAX_SPARE;
        if (isReusable) this.#spare.push(Buffer.from(buffer));
      },
    });
  }
}

import { crc32 } from 'node:zlib';
import { extentAround, type FileCache, type Flight } from '@stevedore/cache';
import { type SliceEntry, type SliceId, Status } from '@stevedore/protocol';
import { StatusError } from '../errors.js';
import { sliceKey } from './file-cache.js';
import type { OpenFile } from './open-files.js';
import type { Slices } from './slices.js';
import type { TrunkDirectory } from './trunk-directory.js';

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

export class SliceReader {
  readonly #parts: SliceReaderParts;

  constructor(parts: SliceReaderParts) {
    this.#parts = parts;
  }

  /** Status 2 if there is no such slice. */
  async read(slice: SliceId, trunkPath: string): Promise<Buffer> {
    const { cache } = this.#parts;
    const bytes = await cache.get(sliceKey(trunkPath, slice), (flight) =>
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
    if (!isSound(slice, bytes)) {
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
    if (!directory || !group || group.members.length < 2) return undefined;
    const { members, asked } = group;
    const isWanted = (member: SliceEntry): boolean =>
      isWorthReading(member, directory, cache) && !cache.isComing(sliceKey(trunkPath, member));
    const wanted = members.map(isWanted);
    const extent = extentAround(members, asked, readAheadBytes, (index) => !wanted[index]);
    if (extent.first === extent.last || !cache.readAhead.pays(trunkPath)) return undefined;
    const besides = members
      .slice(extent.first, extent.last + 1)
      .filter((member, index) => wanted[extent.first + index] && member.offset !== slice.offset)
      .map((member) => ({ member, key: sliceKey(trunkPath, member) }));
    const claimed = new Set(flight.claim(besides.map(({ key }) => key)));
    const bytes = await readExactly(trunk, extent.offset, extent.bytes);
    const part = ({ offset, size }: SliceEntry): Buffer =>
      bytes.subarray(offset - extent.offset, offset - extent.offset + size);
    const own = part(slice);
    // Damage in the slice that was asked for is dealt with where it is read alone.
    if (!isSound(slice, own)) return undefined;
    for (const { member, key } of besides) {
      if (claimed.has(key) && isSound(member, part(member))) {
        flight.deliver(key, part(member), trunkPath);
      }
    }
    return own;
  }
}

function isWorthReading(member: SliceEntry, directory: TrunkDirectory, cache: FileCache): boolean {
  return member.size > 0 && member.size <= cache.maxFileBytes && directory.holds(member);
}

function isSound({ size, crc32: expected }: SliceEntry, bytes: Buffer): boolean {
  return bytes.length === size && crc32(bytes) === expected;
}

export async function readExactly(opened: OpenFile, offset: number, size: number): Promise<Buffer> {
  // Not of the pool: what is kept would keep its neighbours there.
  const bytes = Buffer.allocUnsafeSlow(size);
  const read = await opened.file.readAt(bytes, offset);
  if (read < size) throw new Error(`a file is ${size - read} bytes short`);
  return bytes;
}

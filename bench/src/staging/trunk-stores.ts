import { crc32 } from 'node:zlib';
import {
  encodeFields,
  encodePath,
  encodeTail,
  formatFileId,
  normalSizeField,
} from '@stevedore/protocol';
import type { TrunkStore } from '@stevedore/staging';

/** Stand-ins for FastDFS where a directory is filled and storing is not what is measured. */

/** A FastDFS that is away: a trunk is on its way until it is given up. */
export function absentTrunkStore(): TrunkStore {
  const never = (signal: AbortSignal) =>
    new Promise<never>((_, reject) => {
      if (signal.aborted) reject(signal.reason);
      signal.addEventListener('abort', () => reject(signal.reason), { once: true });
    });
  return {
    store: (_source, signal) => never(signal),
    remove: (_fileId, signal) => never(signal),
    read: (_fileId, _offset, _length, signal) => never(signal),
    replicas: (_fileId, signal) => never(signal),
    sizeOf: (_fileId, signal) => never(signal),
    list: (_onFile, signal) => never(signal),
  };
}

/** Takes every trunk, reads it to its end and keeps nothing but its name and size. */
export class SizesOnly {
  readonly files = new Map<string, number>();
  /** Trunks that were stored, those included that are gone. */
  stored = 0;
  /** Of the files that are there; the most files at any moment; bytes that were stored and read. */
  bytes = 0;
  mostFiles = 0;
  storedBytes = 0;
  readBytes = 0;
  readonly #took: (bytes: number) => Promise<unknown>;

  /** `took`: waits as long as so many bytes take; default: not at all. */
  constructor(took: (bytes: number) => Promise<unknown> = async () => undefined) {
    this.#took = took;
  }

  readonly store: TrunkStore = {
    store: async ({ size, extension, pieces }) => {
      let crc = 0;
      for await (const some of pieces()) for (const piece of some) crc = crc32(piece, crc);
      await this.#took(size);
      this.stored += 1;
      const fileId = trunkFileId(this.stored, size, crc, extension);
      this.files.set(fileId, size);
      this.bytes += size;
      this.storedBytes += size;
      this.mostFiles = Math.max(this.mostFiles, this.files.size);
      return fileId;
    },
    remove: async (fileId) => {
      this.bytes -= this.files.get(fileId) ?? 0;
      this.files.delete(fileId);
    },
    /** Bodies are zeros. */
    read: async (_fileId, _offset, length) => {
      this.readBytes += length;
      return Buffer.alloc(length);
    },
    replicas: async () => ({ holders: ['127.0.0.1:23000'], members: 1 }),
    sizeOf: async (fileId) => this.files.get(fileId),
    list: async () => [],
  };
}

/** Keeps nothing. */
export function forgettingTrunkStore(): TrunkStore {
  return {
    ...new SizesOnly().store,
    read: () => Promise.reject(new Error('nothing was kept')),
    sizeOf: () => Promise.resolve(undefined),
  };
}

export function trunkFileId(
  count: number,
  size: number,
  crc: number,
  extension = 'merged',
): string {
  const fields = encodeFields({
    source: '127.0.0.1',
    createdAtSeconds: 1_700_000_000 + count,
    sizeField: normalSizeField(size, count),
    crc32: crc,
  });
  const path = encodePath(0, (count >> 8) & 0xff, count & 0xff);
  return formatFileId({
    group: 'group1',
    name: `${path}${fields}${encodeTail(extension, '0000000')}`,
  });
}

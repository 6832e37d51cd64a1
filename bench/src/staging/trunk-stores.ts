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
    copies: (_fileId, signal) => never(signal),
    sizeOf: (_fileId, signal) => never(signal),
    list: (_onFile, signal) => never(signal),
  };
}

/** Takes every trunk, reads it to its end and keeps nothing but its name. */
export function forgettingTrunkStore(): TrunkStore {
  let stored = 0;
  return {
    async store(source) {
      let crc = 0;
      for await (const chunk of source.chunks()) crc = crc32(chunk, crc);
      stored += 1;
      return trunkFileId(stored, source.size, crc, source.extension);
    },
    remove: () => Promise.resolve(),
    read: () => Promise.reject(new Error('nothing was kept')),
    copies: () => Promise.resolve({ holders: ['127.0.0.1:23000'], members: 1 }),
    sizeOf: () => Promise.resolve(undefined),
    list: () => Promise.resolve([]),
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

import { crc32 } from 'node:zlib';
import { logUniform, randomPool } from '../harness/file-set.js';
import { seededRandom } from '../harness/seeded-random.js';
import { SEED } from './plan.js';

/**
 * The files: groups of 4 to 12, about 20 KB each. Bodies are views of a pool of random bytes at random
 * places. The same for the same seed.
 */

export interface DataFile {
  readonly group: number;
  readonly bytes: Buffer;
  readonly crc32: number;
}

export const FILE_EXTENSION = 'jpg';
const FILE_BYTES = [5_000, 50_000] as const;
const MEMBERS = [4, 12] as const;
const POOL_BYTES = 32 * 2 ** 20;

/** By groups. */
export function makeFiles(node: number, dataBytes: number): DataFile[][] {
  const random = seededRandom(SEED + node);
  const pool = randomPool(SEED, POOL_BYTES);
  const groups: DataFile[][] = [];
  for (let total = 0; total < dataBytes; ) {
    const members = MEMBERS[0] + Math.floor(random() * (MEMBERS[1] - MEMBERS[0] + 1));
    const files = Array.from({ length: members }, () => {
      const size = logUniform(random, ...FILE_BYTES);
      const from = Math.floor(random() * (POOL_BYTES - size));
      const bytes = pool.subarray(from, from + size);
      total += size;
      return { group: groups.length, bytes, crc32: crc32(bytes) };
    });
    groups.push(files);
  }
  return groups;
}

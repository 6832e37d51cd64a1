import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { Random } from '../support/random.js';
import { NAME } from '../tiers/harness.js';

/** Contents of data files in tests, and whether this disk has one. */

export const bytesOf = (size: number, seed = 1) => {
  const random = new Random(seed);
  return Buffer.from(Array.from({ length: size }, () => random.below(256)));
};
export const onDisk = (folder: string, name = NAME) => existsSync(join(folder, 'data', name));

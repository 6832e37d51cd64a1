import { createCipheriv } from 'node:crypto';
import { SeededRandom } from './seeded-random.js';

/**
 * Small files to store: the same ones for the same seed. Sizes are log-uniform, as
 * many from 2 to 4 KB as from 20 to 40 KB. Bodies are views of one pool of random
 * bytes at random places, so that making them costs the measured process nothing
 * and no two are equal.
 */

export interface SampleFile {
  readonly name: string;
  readonly type: string;
  readonly bytes: Buffer;
}

export interface FileSetOptions {
  readonly seed: number;
  readonly minBytes: number;
  readonly maxBytes: number;
  /** How sizes are spread; `inverse`: ten times the size is ten times as rare. */
  readonly sizes?: 'log-uniform' | 'inverse';
  /** Files are made until they have this many bytes together. */
  readonly totalBytes: number;
}

const POOL_BYTES = 32 * 2 ** 20;
const KINDS = [
  { extension: 'jpg', type: 'image/jpeg' },
  { extension: 'png', type: 'image/png' },
  { extension: 'txt', type: 'text/plain' },
  { extension: 'json', type: 'application/json' },
] as const;

export function makeFileSet({
  seed,
  minBytes,
  maxBytes,
  sizes = 'log-uniform',
  totalBytes,
}: FileSetOptions): SampleFile[] {
  const random = new SeededRandom(seed).next;
  const poolBytes = Math.max(POOL_BYTES, 1.25 * maxBytes);
  const pool = randomPool(seed, poolBytes);
  const sizeOf = sizes === 'inverse' ? inverse : logUniform;
  const files: SampleFile[] = [];
  for (let total = 0; total < totalBytes; ) {
    const size = sizeOf(random, minBytes, maxBytes);
    const from = Math.floor(random() * (poolBytes - size));
    const { extension, type } = KINDS[Math.floor(random() * KINDS.length)]!;
    const name = `upload-${files.length}.${extension}`;
    files.push({ name, type, bytes: pool.subarray(from, from + size) });
    total += size;
  }
  return files;
}

export function logUniform(random: () => number, min: number, max: number): number {
  return Math.round(min * (max / min) ** random());
}

/** Ten times the size is ten times as rare; every decade has as many bytes. */
function inverse(random: () => number, min: number, max: number): number {
  return Math.round(min / (1 - random() * (1 - min / max)));
}

/** A cipher's key stream: fast, repeatable, and nothing compresses it. */
function randomPool(seed: number, bytes: number): Buffer {
  const key = Buffer.alloc(16);
  key.writeDoubleLE(seed, 0);
  return createCipheriv('aes-128-ctr', key, Buffer.alloc(16)).update(Buffer.alloc(bytes));
}

import type { FileRow } from '@stevedore/staging';
import { SEGMENT_BYTES } from '../../../packages/staging/dist/container/record.js';
import { KeyMaker } from '../../../packages/staging/dist/key.js';
import { logUniform } from '../harness/file-set.js';
import { SeededRandom } from '../harness/seeded-random.js';

/**
 * Waiting files of one gateway, as its FileMap holds them: keys by the product's own generator,
 * sizes log-uniform around a mean. The same seed gives the same files. Pure.
 */

/** Log-uniform between these shares of the mean, the mean is one. */
const LEAST_SHARE = 1 / 8;
const MOST_SHARE = 3.44;

export function sizeAround(random: () => number, meanBytes: number): number {
  return Math.max(1, logUniform(random, meanBytes * LEAST_SHARE, meanBytes * MOST_SHARE));
}

/** The sizes of the files that a `FileSource` with the same seed makes. */
export function* sizesOf(meanBytes: number, seed: number): Generator<number, never> {
  const random = new SeededRandom(seed);
  for (;;) yield sizeAround(random.next, meanBytes);
}

export const ABOUT = { type: 'image/jpeg', nameOf: (index: number) => `upload-${index}.jpg` };

export interface FileSourceOptions {
  readonly origin: number;
  readonly meanBytes: number;
  readonly seed: number;
}

export class FileSource {
  readonly #sizes: Generator<number, never>;
  readonly #random: SeededRandom;
  readonly #keys: KeyMaker;
  #now = 0;
  #count = 0;
  #segment = 1;
  #position = 0;

  constructor({ origin, meanBytes, seed }: FileSourceOptions) {
    this.#sizes = sizesOf(meanBytes, seed);
    this.#random = new SeededRandom(~seed);
    this.#keys = new KeyMaker(origin, {
      now: () => this.#now,
      randomFill: (target) => {
        for (let at = 0; at < target.length; at += 1) target[at] = this.#random.below(256);
      },
    });
  }

  /** The next file, staged at this unix millisecond. */
  next(at: number): FileRow {
    this.#now = Math.floor(at);
    const size = this.#sizes.next().value;
    if (this.#position + size > SEGMENT_BYTES) {
      this.#segment += 1;
      this.#position = 0;
    }
    const local = { at: 'container', segment: this.#segment, position: this.#position } as const;
    this.#position += size;
    const name = ABOUT.nameOf(this.#count);
    this.#count += 1;
    return {
      ...{ key: this.#keys.next(), name, type: ABOUT.type, group: undefined, size },
      ...{ crc32: this.#random.below(2 ** 32), stagedAt: this.#now, expiresAt: undefined },
      ...{ was: [], local, trunk: undefined },
    };
  }
}

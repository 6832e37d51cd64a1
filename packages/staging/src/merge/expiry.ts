import type { TrunkLimits } from './joining.js';

/**
 * Files that expire at about the same time belong in one trunk: it is then deleted as a whole and
 * need not be compacted. They are classified by the time they have left. Does no I/O.
 */

export const HOUR_MS = 3_600_000;

/** 0: the file never expires; otherwise the time left as a power of two of hours, from 1 on. */
export type ExpiryClass = number;

const NEVER: ExpiryClass = 0;

/**
 * The same for files that were staged hours apart with the same time to live. A class covers a
 * factor of two: classes are few, so that those in use fill trunks.
 */
export function expiryClassOf(expiresAt: number | undefined, now: number): ExpiryClass {
  if (expiresAt === undefined) return NEVER;
  return 1 + Math.floor(Math.log2(Math.max(1, (expiresAt - now) / HOUR_MS)));
}

/** Bytes and files by class. */
export class ExpirySums {
  readonly #sums = new Map<ExpiryClass, { bytes: number; files: number }>();

  /** Returns the sum of the class. */
  add(expiry: ExpiryClass, bytes: number, files = 1): TrunkLimits {
    const sum = this.#sums.get(expiry) ?? { bytes: 0, files: 0 };
    sum.bytes += bytes;
    sum.files += files;
    this.#sums.set(expiry, sum);
    return sum;
  }

  of(expiry: ExpiryClass): TrunkLimits {
    return this.#sums.get(expiry) ?? { bytes: 0, files: 0 };
  }

  /** In the order in which they were added first. */
  classes(): ExpiryClass[] {
    return [...this.#sums.keys()];
  }
}

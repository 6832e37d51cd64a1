import { ProblemError } from '@stevedore/middleware/core';
import { LRUCache } from 'lru-cache';

/**
 * URLs that were good for one upload and have been used, until they expire. The record of
 * the file says so while the file exists; this remembers it after that, in this process
 * alone. Bounded: the oldest are evicted.
 */

const MAX_MARKS = 100_000;

export interface KnowsSpent {
  /** `until` is when the URL is refused anyway, in Unix milliseconds. */
  add(mark: Buffer, until: number): void;
  /** Throws, or rejects with, `signature_expired`. */
  demandUnspent(mark: Buffer): void | Promise<void>;
}

export class SpentMarks implements KnowsSpent {
  readonly #now: () => number;
  readonly #until = new LRUCache<string, number>({ max: MAX_MARKS });

  constructor(now: () => number) {
    this.#now = now;
  }

  add(mark: Buffer, until: number): void {
    if (until > this.#now()) this.#until.set(mark.toString('base64url'), until);
  }

  demandUnspent(mark: Buffer): void {
    if (this.has(mark)) throw spent();
  }

  has(mark: Buffer): boolean {
    return this.#until.has(mark.toString('base64url'));
  }
}

export function spent(): ProblemError {
  const message = 'This URL was good for one file, which was uploaded and is gone.';
  return new ProblemError('signature_expired', message);
}

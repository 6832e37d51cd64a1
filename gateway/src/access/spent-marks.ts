import { ProblemError } from '@stevedore/middleware/core';
import { LRUCache } from 'lru-cache';

/**
 * URLs that were good for one upload and had it, until they end: the record of the file
 * says so as long as there is the file, and this once it was deleted or its time is over.
 * Known to this process alone, and bounded: of very many the oldest are forgotten.
 */

const MAX_MARKS = 100_000;

export class SpentMarks {
  readonly #now: () => number;
  readonly #until = new LRUCache<string, number>({ max: MAX_MARKS });

  constructor(now: () => number) {
    this.#now = now;
  }

  /** `until` is when the URL is refused anyway, in Unix milliseconds. */
  add(mark: Buffer, until: number): void {
    if (until > this.#now()) this.#until.set(mark.toString('base64url'), until);
  }

  /** Throws `signature_expired`. */
  demandUnspent(mark: Buffer): void {
    if (!this.#until.has(mark.toString('base64url'))) return;
    const message = 'This URL was good for one file, which was uploaded and is gone.';
    throw new ProblemError('signature_expired', message);
  }
}

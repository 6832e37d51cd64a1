import type { StoreError } from '@stevedore/staging/errors';
import { LRUCache } from 'lru-cache';
import { missing } from './failures.js';

/**
 * Trunks and large files that a record names and FastDFS does not have. A read finds that out. The
 * loss is then reported once, and descriptions of such files, which need no bytes, first ask FastDFS
 * whether they are back.
 */

const MAX_KNOWN = 10_000;

export class MissingFiles {
  readonly #known = new LRUCache<string, true>({ max: MAX_KNOWN });
  readonly #report: (error: StoreError) => void;

  constructor(report: (error: StoreError) => void) {
    this.#report = report;
  }

  get count(): number {
    return this.#known.size;
  }

  has(fileId: string | undefined): boolean {
    // Usually empty, and every read looks here.
    return fileId !== undefined && this.#known.size > 0 && this.#known.has(fileId);
  }

  add(fileId: string): void {
    if (this.#known.has(fileId)) return;
    this.#known.set(fileId, true);
    this.#report(missing(fileId));
  }

  remove(fileId: string): void {
    this.#known.delete(fileId);
  }
}

import { type FileRow, latestIdAt, type ReadableStaging, type Staging } from '@stevedore/staging';
import type { StoreOptions } from '../options.js';
import type { IdPending, IdPendingReason } from '../store/receipt.js';

/** Why a file of this store, or of a sibling, has no FastDFS id yet. */

export class PendingIds {
  readonly #options: StoreOptions;
  readonly #staging: Staging;
  readonly #now: () => number;

  constructor(options: StoreOptions, staging: Staging, now: () => number) {
    this.#options = options;
    this.#staging = staging;
    this.#now = now;
  }

  /** Undefined for a file in a trunk that stays. */
  of(row: FileRow, staging: ReadableStaging): IdPending | undefined {
    if (row.trunk && !row.trunk.isThin) return undefined;
    const reason = this.#reasonOf(row, staging);
    const { mergeMaxAge, idMaxAge } = this.#options;
    const by = latestIdAt(row.stagedAt, mergeMaxAge, idMaxAge);
    const isOpen = reason === 'retrying' || reason === 'damaged' || by <= this.#now();
    return isOpen ? { reason } : { reason, by: new Date(by) };
  }

  #reasonOf(row: FileRow, { fileMap, files }: ReadableStaging): IdPendingReason {
    if (!row.trunk && fileMap.damageOf(row.key).some(({ place }) => place !== 'trunk')) {
      return 'damaged';
    }
    // FastDFS did not take the last trunk, which is tried again.
    if (this.#staging.merging.inFlight.failure) return 'retrying';
    if (row.trunk) return 'joining';
    return files.isPacking(row.key) ? 'sending' : 'waiting';
  }
}

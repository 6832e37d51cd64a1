import { type FileRow, latestIdAt, type ReadableStaging } from '@stevedore/staging';
import type { StoreOptions } from './options.js';
import type { IdPending, IdPendingReason } from './receipt.js';

/** Why a file of this store, or of a sibling, has no FastDFS id yet. */

export interface PendingIdsParts {
  readonly options: Pick<StoreOptions, 'mergeMaxAge' | 'idMaxAge'>;
  readonly now: () => number;
  /** Why FastDFS did not take the last trunk, while one is tried again. */
  readonly failure: () => Error | undefined;
}

export class PendingIds {
  readonly #parts: PendingIdsParts;

  constructor(parts: PendingIdsParts) {
    this.#parts = parts;
  }

  /** Undefined for a file in a trunk that stays. */
  of(row: FileRow, staging: ReadableStaging): IdPending | undefined {
    if (row.trunk && !row.trunk.isThin) return undefined;
    const reason = this.#reasonOf(row, staging);
    const { options, now } = this.#parts;
    const by = latestIdAt(row.stagedAt, options.mergeMaxAge, options.idMaxAge);
    const isOpen = reason === 'retrying' || reason === 'damaged' || by <= now();
    return isOpen ? { reason } : { reason, by: new Date(by) };
  }

  #reasonOf(row: FileRow, { fileMap, files }: ReadableStaging): IdPendingReason {
    if (!row.trunk && fileMap.damageOf(row.key).some(({ place }) => place !== 'trunk')) {
      return 'damaged';
    }
    if (this.#parts.failure()) return 'retrying';
    if (row.trunk) return 'joining';
    return files.isPacking(row.key) ? 'sending' : 'waiting';
  }
}

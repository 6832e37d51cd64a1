import { LRUCache } from 'lru-cache';

/**
 * Which slices of trunks that other stores wrote are deleted. A trunk's directory does not
 * tell; a storage of Stevedore does. A stock storage knows no slices at all: a group that
 * denies other slices of the same trunk too is taken for a stock one for a while.
 */

const MAX_GROUPS = 1000;
const STOCK_MS = 600_000;
/** A slice that was there is not asked for again so soon. */
const ALIVE_MS = 1000;
const MAX_ALIVE = 10_000;
/** Other slices that are asked for before a group counts as stock. */
const PROBES = 3;

export class ForeignSlices {
  /** True if a storage says that there is a slice of this id. */
  readonly #isThere: (sliceId: string) => Promise<boolean>;
  readonly #alive = new LRUCache<string, true>({ max: MAX_ALIVE, ttl: ALIVE_MS });
  readonly #stock = new LRUCache<string, true>({ max: MAX_GROUPS, ttl: STOCK_MS });

  constructor(isThere: (sliceId: string) => Promise<boolean>) {
    this.#isThere = isThere;
  }

  /** `others` are ids of slices in the same trunk. */
  async isDeleted(
    group: string,
    sliceId: string,
    others: () => Iterable<string>,
  ): Promise<boolean> {
    if (this.#stock.has(group) || this.#alive.has(sliceId)) return false;
    if (await this.#isThere(sliceId)) {
      this.#alive.set(sliceId, true);
      return false;
    }
    let probes = 0;
    for (const other of others()) {
      if (other === sliceId) continue;
      if (await this.#isThere(other)) return true;
      probes += 1;
      if (probes === PROBES) break;
    }
    this.#stock.set(group, true);
    return false;
  }

  forget(sliceId: string): void {
    this.#alive.delete(sliceId);
  }

  /** True if the group's storages are known to know no slices. */
  isStock(group: string): boolean {
    return this.#stock.has(group);
  }
}

import type { AccessedFile } from '@stevedore/balance';
import type { Tier } from '../tiers/tier.js';
import type { Tiers } from '../tiers/tiers.js';

/** The rows that were read or written in an interval, with their load; as many as are remembered. */

const MAX_ACCESSED = 10_000;

export interface AccessedRow {
  readonly tier: Tier;
  readonly name: string;
  readonly size: number;
  readonly loadBytes: number;
  readonly accesses: number;
  /** It was stored in this interval. */
  readonly isNew: boolean;
}

export class AccessedFiles {
  readonly #tiers: Tiers;
  readonly #rows = new Map<string, AccessedRow>();

  constructor(tiers: Tiers) {
    this.#tiers = tiers;
  }

  /** Gives the row where it was not accessed before. */
  add(path: string, loadBytes: number, size: number, isNew: boolean): AccessedRow | undefined {
    const known = this.#rows.get(path);
    if (known) {
      this.#rows.set(path, {
        ...known,
        size,
        loadBytes: known.loadBytes + loadBytes,
        accesses: known.accesses + 1,
        isNew: known.isNew || isNew,
      });
      return undefined;
    }
    const at = this.#tiers.locate(path);
    if (!at || this.#rows.size >= MAX_ACCESSED) return undefined;
    const row: AccessedRow = { ...at, size, loadBytes, accesses: 1, isNew };
    this.#rows.set(path, row);
    return row;
  }

  find(path: string): AccessedRow | undefined {
    return this.#rows.get(path);
  }

  /** What was stored just now is left out: most of it will hardly be asked for again. */
  get movable(): AccessedFile[] {
    return [...this.#rows]
      .filter(([, { isNew }]) => !isNew)
      .map(([id, { size: sizeBytes, loadBytes }]) => ({ id, sizeBytes, loadBytes }));
  }

  [Symbol.iterator](): IterableIterator<AccessedRow> {
    return this.#rows.values();
  }
}

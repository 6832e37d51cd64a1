import { DAY_MS, type Ledger } from './ledger.js';

/**
 * What unfinished uploads have used of their keys' bytes today. An upload that is removed, or gets
 * too old, before it is a file gives them back.
 */

interface Charge {
  readonly key: string;
  readonly day: number;
  readonly bytes: number;
}

export interface UnfinishedChargesParts {
  readonly ledger: Ledger;
  readonly now: () => number;
  /** True for an upload that is unfinished or has become a file. */
  readonly isKept: (id: string) => Promise<boolean>;
}

const CHECK_INTERVAL_MS = 10_000;

export class UnfinishedCharges {
  readonly #parts: UnfinishedChargesParts;
  /** By upload; bounded by the number of unfinished ones. */
  readonly #charges = new Map<string, Charge>();
  /** Uploads that no request removed. */
  readonly #timer: NodeJS.Timeout;

  constructor(parts: UnfinishedChargesParts) {
    this.#parts = parts;
    this.#timer = setInterval(() => void this.check(), CHECK_INTERVAL_MS).unref();
  }

  /** Bytes that were counted now. */
  add(id: string, key: string, bytes: number): void {
    const day = Math.floor(this.#parts.now() / DAY_MS);
    const known = this.#charges.get(id);
    const before = known?.day === day ? known.bytes : 0;
    this.#charges.set(id, { key, day, bytes: before + bytes });
  }

  /** They have become a file: their bytes stay counted. */
  keep(ids: readonly string[]): void {
    for (const id of ids) this.#charges.delete(id);
  }

  async check(ids: Iterable<string> = [...this.#charges.keys()]): Promise<void> {
    for (const id of ids) {
      // Without an answer it is looked at again.
      if (!this.#charges.has(id) || (await this.#parts.isKept(id).catch(() => true))) continue;
      const charge = this.#charges.get(id);
      if (charge && this.#charges.delete(id)) {
        this.#parts.ledger.giveBack(charge.key, charge.day, charge.bytes);
      }
    }
  }

  close(): void {
    clearInterval(this.#timer);
  }
}

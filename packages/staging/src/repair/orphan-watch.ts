import { GrowingPause, serial } from '@stevedore/async';
import { StoreError } from '../errors.js';
import type { State } from '../state.js';
import { type Adopters, type OrphanReport, type OrphanSearch, Search } from './orphans.js';

/**
 * Searches for orphans in the background while FastDFS may hold something of an unfinished plan:
 * soon after a start, and again once storages have had time to list what they received. One search
 * at a time; if the cluster cannot be listed, the next search follows after a growing pause.
 */
export interface OrphanStats {
  /** Trunks found in FastDFS that are in no record, since the start. */
  readonly found: number;
  readonly adopted: number;
  readonly deleted: number;
  /** Plans for which FastDFS may hold something. */
  readonly openPlans: number;
}

const GRACE_MS = 300_000;
const TICK_MS = 5_000;
const LONGEST_PAUSE_MS = 86_400_000;

export class OrphanWatch {
  readonly #state: State;
  readonly #adopters: Adopters;
  /** How long storages may take to list files that they received. */
  readonly #graceMs: number;
  readonly #inTurn = serial();
  /** Reported files that may be another program's. */
  readonly #reported = new Set<string>();
  /** In milliseconds of `performance.now()`. */
  #dueAt = 0;
  readonly #pause: GrowingPause;
  readonly #sums = { found: 0, adopted: 0, deleted: 0, left: 0 };

  constructor(state: State, adopters: Adopters) {
    this.#state = state;
    this.#adopters = adopters;
    this.#graceMs = state.options.listingGraceMs ?? GRACE_MS;
    this.#pause = new GrowingPause({ firstMs: this.#graceMs, lastMs: LONGEST_PAUSE_MS });
  }

  start(): void {
    this.#state.changes.every(TICK_MS, () => this.#look())();
  }

  stats(): OrphanStats {
    const { left: _, ...sums } = this.#sums;
    return { ...sums, openPlans: this.#state.fileMap.doubtfulTrunks().length };
  }

  /** Waits for a search in progress, then searches. */
  async search(
    how: Pick<OrphanSearch, 'repair' | 'all'>,
    signal?: AbortSignal,
  ): Promise<OrphanReport> {
    const { stopped } = this.#state.changes;
    const either = signal ? AbortSignal.any([signal, stopped]) : stopped;
    const search = { ...how, graceMs: this.#graceMs, signal: either };
    const report = await this.#inTurn(() => new Search(this.#state, this.#adopters, search).run());
    this.#sums.found += report.orphans.length;
    for (const { fate } of report.orphans) this.#sums[fate] += 1;
    return report;
  }

  async ended(): Promise<void> {
    await this.#inTurn(async () => undefined);
  }

  async #look(): Promise<void> {
    const { fileMap } = this.#state;
    if (performance.now() < this.#dueAt) return;
    const doubtful = fileMap.doubtfulTrunks().filter(({ state }) => state !== 'planned');
    if (doubtful.length === 0 && fileMap.unwanted().length === 0) {
      this.#pause.reset();
      return;
    }
    try {
      this.#report(await this.search({ repair: true, all: false }));
    } finally {
      this.#dueAt = performance.now() + this.#pause.next();
    }
  }

  /** Reports the orphans that remain, and each file that may be another program's once. */
  #report({ orphans, possible }: OrphanReport): void {
    const { changes } = this.#state;
    for (const { fileId, bytes, fate, detail } of orphans) {
      if (fate !== 'left') continue;
      const text = `${fileId} (${bytes} bytes) is in FastDFS and in no record: ${detail}`;
      changes.report(new StoreError('storage_unavailable', text));
    }
    for (const { fileId, bytes, key } of possible) {
      if (this.#reported.has(fileId)) continue;
      this.#reported.add(fileId);
      const text = `${fileId} (${bytes} bytes) may be a second copy of ${key ?? 'a large file that was deleted'}; it is left, for it may be another program's`;
      changes.report(new StoreError('storage_unavailable', text, { retryable: false }));
    }
  }
}

import type { Tier } from '../tiers/tier.js';
import type { Guests } from './guests.js';

/**
 * Deletes what other metadata servers hold for nobody any more: copies of moves that did
 * not end, of files that came home, changed or went. The records have them until that is
 * done, so that no crash forgets one. One that has just become superfluous is left for a
 * moment: somebody may have begun to read it.
 */

const MOST_AT_ONCE = 64;

export interface DeparturesOptions {
  readonly tiers: readonly Tier[];
  readonly guests: Guests;
  readonly graceMs: number;
  readonly intervalMs: number;
}

export class Departures {
  readonly #options: DeparturesOptions;
  /** When each was first seen here. */
  readonly #seenAtMs = new Map<string, number>();
  #timer: NodeJS.Timeout | undefined;
  #working: Promise<void> | undefined;
  #isClosed = false;

  constructor(options: DeparturesOptions) {
    this.#options = options;
  }

  start(): void {
    this.#timer = setInterval(() => {
      this.#working ??= this.work().finally(() => {
        this.#working = undefined;
      });
    }, this.#options.intervalMs);
    this.#timer.unref();
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    clearInterval(this.#timer);
    await this.#working;
  }

  /** Deletes what is due; what cannot be reached waits. Never rejects. */
  async work(): Promise<void> {
    const { tiers, guests, graceMs } = this.#options;
    const now = performance.now();
    const all = new Set<string>();
    const unreachable = new Set<string>();
    for (const { records } of tiers) {
      for (const place of records.departures(MOST_AT_ONCE)) {
        all.add(place);
        if (!this.#seenAtMs.has(place)) this.#seenAtMs.set(place, now);
        const server = place.slice(0, place.indexOf('/'));
        const isDue = now - this.#seenAtMs.get(place)! >= graceMs;
        if (this.#isClosed || !isDue || guests.isArriving(place) || unreachable.has(server)) {
          continue;
        }
        // A move may have ended while others were deleted: the place is a file's now.
        if (!records.departures(MOST_AT_ONCE).includes(place)) continue;
        try {
          await guests.remove(place);
          records.removeDeparture(place);
        } catch {
          unreachable.add(server);
        }
      }
    }
    for (const place of this.#seenAtMs.keys()) if (!all.has(place)) this.#seenAtMs.delete(place);
  }
}

import type { DeploymentMap, Removal } from '@stevedore/map';
import { textOf } from './map-cache.js';

/**
 * Hears of every removal in the map, and of each once. A removal can become visible after later ones,
 * so polls look back.
 */

export interface RemovalPollParts {
  readonly map: Pick<DeploymentMap, 'removalsAfter'>;
  /** The map's clock. */
  readonly now: () => Promise<number>;
  readonly onRemoved: (key: Buffer) => void;
}

const NO_KEY = new Uint8Array(0);
const MAX_REMOVALS = 5_000;
const OVERLAP_MS = 1_000;
/** Thorough polls go back this far: longer than a statement may take. */
const LATEST_COMMIT_MS = 15_000;
const THOROUGH_INTERVAL_MS = 5_000;

export class RemovalPoll {
  readonly #parts: RemovalPollParts;
  /** Those already heard of: the time of each, by key. */
  readonly #seen = new Map<string, number>();
  #polledUpTo: number | undefined;
  #heardAllAt = Number.NEGATIVE_INFINITY;

  constructor(parts: RemovalPollParts) {
    this.#parts = parts;
  }

  async poll(): Promise<void> {
    const { map, now, onRemoved } = this.#parts;
    const from = this.#polledUpTo ?? (await now());
    const isThorough = performance.now() - this.#heardAllAt >= THOROUGH_INTERVAL_MS;
    const overlapMs = isThorough ? LATEST_COMMIT_MS : OVERLAP_MS;
    let last: Removal = { key: NO_KEY, removedAt: from - overlapMs };
    for (;;) {
      const removals = await map.removalsAfter(last, MAX_REMOVALS);
      for (const removal of removals) {
        last = removal;
        const text = textOf(removal.key);
        if (this.#seen.has(text)) continue;
        this.#seen.set(text, removal.removedAt);
        onRemoved(Buffer.from(removal.key));
      }
      if (removals.length < MAX_REMOVALS) break;
    }
    this.#polledUpTo = Math.max(from, last.removedAt);
    if (!isThorough) return;
    this.#heardAllAt = performance.now();
    for (const [text, at] of this.#seen) {
      if (at < this.#polledUpTo - LATEST_COMMIT_MS) this.#seen.delete(text);
    }
  }
}

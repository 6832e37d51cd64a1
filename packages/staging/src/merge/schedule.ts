/**
 * Decides when to merge (client merging paper, section 2.2: a timed task "that dynamically changes
 * the merging operation interval based on the file flow rate"). Does no I/O.
 */

/** A near-perfect fit needs a choice: this many times the target must be waiting. */
export const CANDIDATE_FACTOR = 1.25;
/** Half-life of the inflow's average, in milliseconds. */
const INFLOW_HALF_LIFE_MS = 5_000;
export const MIN_WAIT_MS = 20;
export const MAX_WAIT_MS = 5_000;

export interface MergeSituation {
  readonly now: number;
  /** Waiting bytes, with the overhead of the format. */
  readonly waitingBytes: number;
  readonly waitingFiles: number;
  /** When the oldest of them was staged, in Unix milliseconds. */
  readonly oldestStagedAt: number | undefined;
  readonly inflowBytesPerSecond: number;
  readonly targetBytes: number;
  readonly maxFiles: number;
  readonly maxAgeMs: number;
  /** The container is nearly full: merge whatever waits. */
  readonly short: boolean;
}

export type MergeReason = 'full' | 'age' | 'space' | 'flush';

export type MergeDecision =
  | { readonly action: 'merge'; readonly reason: MergeReason }
  | { readonly action: 'wait'; readonly waitMs: number };

export function decideMerge(situation: MergeSituation): MergeDecision {
  const { now, waitingBytes, waitingFiles, oldestStagedAt, targetBytes, maxAgeMs } = situation;
  if (oldestStagedAt === undefined || waitingFiles === 0) {
    return { action: 'wait', waitMs: MAX_WAIT_MS };
  }
  const wantedBytes = CANDIDATE_FACTOR * targetBytes;
  if (waitingBytes >= wantedBytes || waitingFiles >= CANDIDATE_FACTOR * situation.maxFiles) {
    return { action: 'merge', reason: 'full' };
  }
  const ageMs = now - oldestStagedAt;
  // If the clock was set back far, do not wait for it to catch up.
  if (ageMs >= maxAgeMs || ageMs < -maxAgeMs) return { action: 'merge', reason: 'age' };
  if (situation.short) return { action: 'merge', reason: 'space' };
  const untilFullMs =
    situation.inflowBytesPerSecond > 0
      ? ((wantedBytes - waitingBytes) / situation.inflowBytesPerSecond) * 1000
      : MAX_WAIT_MS;
  const waitMs = Math.min(untilFullMs, maxAgeMs - ageMs, MAX_WAIT_MS);
  return { action: 'wait', waitMs: Math.max(MIN_WAIT_MS, Math.ceil(waitMs)) };
}

/** Bytes per second, exponentially weighted. */
export class Inflow {
  #rate = 0;
  #pendingBytes = 0;
  #since: number;

  constructor(now: number) {
    this.#since = now;
  }

  add(bytes: number): void {
    this.#pendingBytes += bytes;
  }

  /** Adds the bytes since the last call to the average and returns it. */
  bytesPerSecond(now: number): number {
    const elapsedMs = now - this.#since;
    // A clock set back restarts the measurement.
    if (elapsedMs < 0) this.#since = now;
    if (elapsedMs < 1) return this.#rate;
    const current = (this.#pendingBytes / elapsedMs) * 1000;
    const weight = 1 - 0.5 ** (elapsedMs / INFLOW_HALF_LIFE_MS);
    this.#rate += (current - this.#rate) * weight;
    this.#pendingBytes = 0;
    this.#since = now;
    return this.#rate;
  }
}

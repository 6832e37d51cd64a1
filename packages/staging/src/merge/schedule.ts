/**
 * Decides when to merge. Does no I/O. The client merging paper (section 2.2) has a timed task "that
 * dynamically changes the merging operation interval based on the file flow rate". Here the arrival
 * of enough bytes ends the wait, so the interval is the bytes wanted by the flow, with no estimate.
 */

/** A near-perfect fit needs a choice: this many times the target must be waiting. */
export const CANDIDATE_FACTOR = 1.25;
export const MIN_WAIT_MS = 20;
/** The clock may have been set meanwhile. */
export const MAX_WAIT_MS = 60_000;

export interface MergeSituation {
  readonly now: number;
  /** Waiting bytes, with the overhead of the format. */
  readonly waitingBytes: number;
  readonly waitingFiles: number;
  /** When the oldest of them was staged, in Unix milliseconds. */
  readonly oldestStagedAt: number | undefined;
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
  if (oldestStagedAt === undefined) return { action: 'wait', waitMs: MAX_WAIT_MS };
  const wantedBytes = CANDIDATE_FACTOR * targetBytes;
  if (waitingBytes >= wantedBytes || waitingFiles >= CANDIDATE_FACTOR * situation.maxFiles) {
    return { action: 'merge', reason: 'full' };
  }
  const ageMs = now - oldestStagedAt;
  // If the clock was set back far, do not wait for it to catch up.
  if (ageMs >= maxAgeMs || ageMs < -maxAgeMs) return { action: 'merge', reason: 'age' };
  if (situation.short) return { action: 'merge', reason: 'space' };
  const waitMs = Math.min(maxAgeMs - ageMs, MAX_WAIT_MS);
  return { action: 'wait', waitMs: Math.max(MIN_WAIT_MS, Math.ceil(waitMs)) };
}

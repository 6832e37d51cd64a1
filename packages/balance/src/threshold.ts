import type { Parameters } from './parameters.js';

/**
 * The small-file threshold (section 4.2.1): a file up to this size is stored with its metadata.
 * Pure; the parameters bound every result.
 */

export interface Conditions {
  /**
   * P_sg, read as the *used* share of the store, because the text shrinks the threshold above
   * Th_sg.
   */
  readonly usedShare: number;
  /** P_ld: load as a share of B_logic, observed and not forecast. */
  readonly loadShare: number;
  /** High load shrinks the threshold no further than this. Default 0. */
  readonly leastByLoadBytes?: number | undefined;
}

/**
 * Eq. 13: the next global threshold. Used space decides before load. Growth is bounded by Th_max
 * (the paper prints max, but means min). Between the two load marks the threshold stays. It never
 * falls below its minimum.
 */
export function globalThreshold(
  oldBytes: number,
  { usedShare, loadShare, leastByLoadBytes = 0 }: Conditions,
  parameters: Parameters,
): number {
  const { spaceStep, loadStep } = parameters;
  if (usedShare >= parameters.usedMark) return bounded((1 - spaceStep) * oldBytes, parameters);
  if (loadShare < parameters.lowLoadMark) return bounded((1 + loadStep) * oldBytes, parameters);
  if (loadShare <= parameters.highLoadMark) return bounded(oldBytes, parameters);
  // What space has shrunk below it stays as it is.
  const least = Math.min(oldBytes, leastByLoadBytes);
  return bounded(Math.max((1 - loadStep) * oldBytes, least), parameters);
}

/**
 * Eq. 14: a file's own threshold, (1 + MF · δ) · Th_global, at most Th_max. (The paper prints max,
 * which would make every threshold at least Th_max.) The more often a file has moved, the less
 * readily it moves.
 */
export function fileThreshold(globalBytes: number, moves: number, parameters: Parameters): number {
  return bounded((1 + Math.max(0, moves) * parameters.moveWeight) * globalBytes, parameters);
}

function bounded(bytes: number, parameters: Parameters): number {
  const atLeast = Math.max(bytes, parameters.minimumThresholdBytes);
  return Math.min(atLeast, parameters.maximumThresholdBytes);
}

/**
 * Heat: how often a file is accessed, as one number. Each access counts half after every half-life.
 * The heat is the logarithm of the sum as of time 0, so it needs no decay: the file with less heat
 * is accessed less, whenever the two are compared. Pure.
 */

const HALF_LIFE_MS = 3_600_000;

/** The heat after these accesses now; `before` is undefined if there were none. */
export function heated(before: number | undefined, nowMs: number, accesses = 1): number {
  const now = nowMs / HALF_LIFE_MS + Math.log2(accesses);
  if (before === undefined) return now;
  const high = Math.max(before, now);
  return high + Math.log2(1 + 2 ** (Math.min(before, now) - high));
}

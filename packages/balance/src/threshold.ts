import type { Parameters } from './parameters.js';

/**
 * The small-file threshold in the long term (section 4.2.1): a file at most as large
 * lies with its metadata. Pure; bounded by the parameters whatever comes in.
 */

export interface Conditions {
  /** P_sg, read as the share of the store that is *used*: the text shrinks the threshold above Th_sg. */
  readonly usedShare: number;
  /** P_ld: observed, not forecast, load as a share of B_logic. */
  readonly loadShare: number;
}

/**
 * Eq. 13: the next global threshold. Used space decides first; then load. Growth is
 * bounded by Th_max (the paper prints max where min is meant), the threshold stays
 * between the two load marks, and never falls below the least.
 */
export function globalThreshold(
  oldBytes: number,
  { usedShare, loadShare }: Conditions,
  parameters: Parameters,
): number {
  const { spaceStep, loadStep } = parameters;
  if (usedShare >= parameters.usedMark) return bounded((1 - spaceStep) * oldBytes, parameters);
  if (loadShare < parameters.lowLoadMark) return bounded((1 + loadStep) * oldBytes, parameters);
  if (loadShare > parameters.highLoadMark) return bounded((1 - loadStep) * oldBytes, parameters);
  return bounded(oldBytes, parameters);
}

/**
 * Eq. 14: a file's own threshold: (1 + MF · δ) · Th_global, at most Th_max (the paper
 * prints max, which would make every threshold Th_max or more). A file that has moved
 * often moves less readily.
 */
export function fileThreshold(globalBytes: number, moves: number, parameters: Parameters): number {
  return bounded((1 + Math.max(0, moves) * parameters.moveWeight) * globalBytes, parameters);
}

function bounded(bytes: number, parameters: Parameters): number {
  const atLeast = Math.max(bytes, parameters.minimumThresholdBytes);
  return Math.min(atLeast, parameters.maximumThresholdBytes);
}

/**
 * How often a file is asked for, as one number. Each access counts half as much for every
 * half-life that has passed; the number is the logarithm of their sum as it was at time 0,
 * so that it needs no decay: of two files the one with less is asked for less, whenever
 * they are compared. Pure.
 */

const HALF_LIFE_MS = 3_600_000;

/** The heat after so many accesses now; `before` undefined: there were none. */
export function heated(before: number | undefined, nowMs: number, accesses = 1): number {
  const now = nowMs / HALF_LIFE_MS + Math.log2(accesses);
  if (before === undefined) return now;
  const high = Math.max(before, now);
  return high + Math.log2(1 + 2 ** (Math.min(before, now) - high));
}

/** Half of an access less than three, so that three of the same few minutes are enough. */
const OFTEN = 2.5;

/** Whether a part of a larger file gets a row: it is small, and asked for again and again. */
export function isWorthRow(
  { sizeBytes, heat }: { readonly sizeBytes: number; readonly heat: number },
  thresholdBytes: number,
  nowMs: number,
): boolean {
  return sizeBytes <= thresholdBytes && heat - nowMs / HALF_LIFE_MS > Math.log2(OFTEN);
}

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

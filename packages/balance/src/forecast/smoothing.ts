import {
  assertCapacity,
  assertShare,
  clamp,
  type Forecaster,
  type Observation,
} from './forecaster.js';

/** The last forecast; undefined before the first observation. */
export interface SmoothingState {
  readonly forecastBytes: number | undefined;
}

/**
 * Single exponential smoothing, Eq. 7: F_i = α · O_{i−1} + (1 − α) · F_{i−1}. The first
 * forecast is the first observation.
 */
export function sesm(alpha: number, capacityBytes: number): Forecaster<SmoothingState> {
  assertShare('alpha', alpha);
  assertCapacity(capacityBytes);
  return {
    name: `SESM ${alpha}`,
    initial: { forecastBytes: undefined },
    step({ forecastBytes: before }, { servedBytes }) {
      const bytes = clamp(smoothed(alpha, servedBytes, before), 0, capacityBytes);
      return { state: { forecastBytes: bytes }, bytes };
    },
  };
}

/** Eq. 7 itself. */
export function smoothed(alpha: number, observed: number, before: number | undefined): number {
  return before === undefined ? observed : alpha * observed + (1 - alpha) * before;
}

/**
 * Burst-aware exponential smoothing (BA-ESM, Eq. 8 to 12): the scheduler's queue shows a burst
 * before it is served.
 */

export interface BurstAwareOptions {
  /** α of Eq. 7 and 12. */
  readonly alpha: number;
  /** β: a lower ratio is the end of a burst. */
  readonly low: number;
  /** γ: a higher ratio is the beginning of a burst. */
  readonly high: number;
  /** B_logic for one interval. */
  readonly capacityBytes: number;
}

/** The ratio if nothing was served although something waits. */
const RATIO_LIMIT = 1e6;

/**
 * Eq. 10 and 11: waiting over served bytes. Waiting bytes count up to B_logic only (section 4.1.2:
 * the ratio "should be reduced to a predefined value if it is too large"). If nothing was served, 1
 * if nothing waits either, else the limit.
 */
export function burstRatio(observed: Observation, capacityBytes: number): number {
  const waiting = clamp(observed.waitingBytes, 0, capacityBytes);
  if (observed.servedBytes > 0) return Math.min(waiting / observed.servedBytes, RATIO_LIMIT);
  return waiting > 0 ? RATIO_LIMIT : 1;
}

/**
 * Eq. 12, with its first line written as TD̂ − O + α · O + (1 − α) · F. This equals (Ratio − 1 + α)
 * · O + (1 − α) · F if anything was served, and has a value if nothing was. Ratios equal to β or γ,
 * for which the paper has no line, are steady. The result is clamped to 0 and B_logic: the
 * correction can go below zero, and no interval serves more than the server can.
 */
export function baEsm(options: BurstAwareOptions): Forecaster<SmoothingState> {
  const { alpha, low, high, capacityBytes } = options;
  assertShare('alpha', alpha);
  assertCapacity(capacityBytes);
  if (!(low >= 0 && low <= high)) throw new RangeError(`low is ${low}, high is ${high}`);
  return {
    name: `BA-ESM ${alpha}`,
    initial: { forecastBytes: undefined },
    step({ forecastBytes: before }, observed) {
      const ratio = burstRatio(observed, capacityBytes);
      const steady = smoothed(alpha, observed.servedBytes, before);
      const waiting = clamp(observed.waitingBytes, 0, capacityBytes);
      const burst = ratio < low || ratio > high;
      const correction = burst ? waiting - observed.servedBytes : 0;
      const bytes = clamp(steady + correction, 0, capacityBytes);
      return { state: { forecastBytes: bytes }, bytes };
    },
  };
}

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
    step({ forecastBytes: before }, { loadBytes }) {
      const bytes = clamp(smoothed(alpha, loadBytes, before), 0, capacityBytes);
      return { state: { forecastBytes: bytes }, bytes };
    },
  };
}

function smoothed(alpha: number, observed: number, before: number | undefined): number {
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
  readonly burstEnd: number;
  /** γ: a higher ratio is the beginning of a burst. */
  readonly burstBegin: number;
}

/** The ratio if nothing was served although something is queued. */
const RATIO_LIMIT = 1e6;

/**
 * Eq. 10 and 11: queued over served bytes. Both count up to B_logic only (Eq. 2, and section 4.1.2:
 * the queue "should be reduced to a predefined value if it is too large"). If nothing was served, 1
 * if nothing is queued either, else the limit.
 */
export function burstRatio(observed: Observation, capacityBytes: number): number {
  const { servedBytes, queuedBytes } = bounded(observed, capacityBytes);
  if (servedBytes > 0) return Math.min(queuedBytes / servedBytes, RATIO_LIMIT);
  return queuedBytes > 0 ? RATIO_LIMIT : 1;
}

function bounded({ servedBytes, queuedBytes }: Observation, capacityBytes: number) {
  return {
    servedBytes: clamp(servedBytes, 0, capacityBytes),
    queuedBytes: clamp(queuedBytes, 0, capacityBytes),
  };
}

/**
 * Eq. 12, with its first line written as TD̂ − TD + α · O + (1 − α) · F. This equals (Ratio − 1 + α)
 * · O + (1 − α) · F where O is TD and anything was served, and has a value if nothing was. Ratios
 * equal to β or γ, for which the paper has no line, are steady. The result is clamped to 0 and
 * B_logic: the correction can go below zero, and no interval serves more than the server can.
 */
export function baEsm(
  { alpha, burstEnd, burstBegin }: BurstAwareOptions,
  capacityBytes: number,
): Forecaster<SmoothingState> {
  assertShare('alpha', alpha);
  assertCapacity(capacityBytes);
  if (!(burstEnd >= 0 && burstEnd <= burstBegin)) {
    throw new RangeError(`a burst ends at ${burstEnd} and begins at ${burstBegin}`);
  }
  return {
    name: `BA-ESM ${alpha}`,
    initial: { forecastBytes: undefined },
    step({ forecastBytes: before }, observed) {
      const ratio = burstRatio(observed, capacityBytes);
      const isBurst = ratio < burstEnd || ratio > burstBegin;
      const { servedBytes, queuedBytes } = bounded(observed, capacityBytes);
      const correction = isBurst ? queuedBytes - servedBytes : 0;
      const steady = smoothed(alpha, observed.loadBytes, before);
      const bytes = clamp(steady + correction, 0, capacityBytes);
      return { state: { forecastBytes: bytes }, bytes };
    },
  };
}

import { assertCapacity, assertShare, clamp, type Forecaster } from './forecaster.js';

/** The last forecast; before the first observation there is none. */
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

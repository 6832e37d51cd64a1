/**
 * A forecaster is a state and a step. At the end of an interval, a step takes what was served and
 * what waits, and returns the load of the coming interval. The state is plain data, so a forecast
 * can be stored and repeated.
 */

export interface Observation {
  /** O (and TD, Eq. 8 and 9): bytes of the class served in the interval that ended. */
  readonly servedBytes: number;
  /** TD̂: bytes of the class that wait at the end of the interval. */
  readonly waitingBytes: number;
}

export interface Forecast<S> {
  readonly state: S;
  /** F: bytes that the coming interval will serve, 0 to B_logic. */
  readonly bytes: number;
}

export interface Forecaster<S = unknown> {
  readonly name: string;
  readonly initial: S;
  step(state: S, observed: Observation): Forecast<S>;
}

export function clamp(value: number, low: number, high: number): number {
  return Math.min(high, Math.max(low, value));
}

export function assertCapacity(capacityBytes: number): void {
  if (!(capacityBytes > 0 && Number.isFinite(capacityBytes))) {
    throw new RangeError(`the capacity is ${capacityBytes} bytes`);
  }
}

/** Forecasts for a series: the i-th is made before the i-th observation. */
export function forecastAll<S>(
  forecaster: Forecaster<S>,
  series: readonly Observation[],
): (number | undefined)[] {
  const forecasts: (number | undefined)[] = [];
  let state = forecaster.initial;
  let next: number | undefined;
  for (const observed of series) {
    forecasts.push(next);
    const forecast = forecaster.step(state, observed);
    state = forecast.state;
    next = forecast.bytes;
  }
  return forecasts;
}

/** Eq. 16: the mean of |F − O|. Throws without a pair. */
export function meanAbsoluteError(
  forecasts: readonly (number | undefined)[],
  observed: readonly number[],
): number {
  let sum = 0;
  let count = 0;
  for (const [index, forecast] of forecasts.entries()) {
    const value = observed[index];
    if (forecast === undefined || value === undefined) continue;
    sum += Math.abs(forecast - value);
    count += 1;
  }
  if (count === 0) throw new RangeError('there is no forecast to compare');
  return sum / count;
}

/** Eq. 16 of a forecaster over a series, in bytes per interval. */
export function forecastError<S>(
  forecaster: Forecaster<S>,
  series: readonly Observation[],
): number {
  return meanAbsoluteError(
    forecastAll(forecaster, series),
    series.map(({ servedBytes }) => servedBytes),
  );
}

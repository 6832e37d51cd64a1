import type { Forecaster, Observation } from '@stevedore/balance';

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
    series.map(({ loadBytes }) => loadBytes),
  );
}

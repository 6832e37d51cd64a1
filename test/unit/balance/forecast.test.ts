import {
  baEsm,
  burstRatio,
  type Forecaster,
  type Observation,
  panel,
  sesm,
} from '@stevedore/balance';
import { forecastAll, forecastError, meanAbsoluteError } from '@stevedore/bench/forecast-error';
import { SeededRandom } from '@stevedore/bench/seeded-random';
import { describe, expect, test } from 'vitest';

const CAPACITY = 1000;
const served = (servedBytes: number, waitingBytes = 0): Observation => ({
  servedBytes,
  waitingBytes,
});
const paper = baEsm({ alpha: 0.1, low: 0.9, high: 1.1, capacityBytes: CAPACITY });

/** What each forecaster says after these observations. */
function said<S>(forecaster: Forecaster<S>, series: readonly Observation[]): number {
  return forecastAll(forecaster, [...series, served(0)]).at(-1)!;
}

describe('SESM', () => {
  test('is Eq. 7, and begins with the first observation', () => {
    expect(said(sesm(0.1, CAPACITY), [served(100)])).toBe(100);
    expect(said(sesm(0.1, CAPACITY), [served(100), served(200)])).toBeCloseTo(110);
    expect(said(sesm(0.9, CAPACITY), [served(100), served(200)])).toBeCloseTo(190);
  });
});

describe('BA-ESM', () => {
  test('is SESM while the ratio is between the marks, and at them', () => {
    for (const waiting of [90, 95, 100, 110]) {
      const series = [served(100, 100), served(100, waiting), served(100, waiting)];
      expect(said(paper, series)).toBeCloseTo(100);
    }
  });

  test('adds the growth of the queue when a burst begins, takes it off when it ends', () => {
    const steady = [served(100, 100), served(100, 100)];
    expect(said(paper, [...steady, served(100, 600)])).toBeCloseTo(600);
    const burst = [...steady, served(100, 600), served(600, 100)];
    // (Ratio − 1 + α) · O + (1 − α) · F with Ratio = 1/6, O = F = 600.
    expect(said(paper, burst)).toBeCloseTo((1 / 6 - 1 + 0.1) * 600 + 0.9 * 600);
  });

  test('a queue beyond B_logic counts as B_logic', () => {
    expect(burstRatio(served(500, 5000), CAPACITY)).toBe(2);
    expect(said(paper, [served(500, 5000)])).toBeLessThanOrEqual(CAPACITY);
  });

  test('a burst takes the forecast to B_logic at most, and its end to nothing at least', () => {
    const busy = [served(900, 900), served(900, 900)];
    // Steady 0.1 · 500 + 0.9 · 900 = 860, and 500 more wait than were served.
    expect(said(paper, [...busy, served(500, 1000)])).toBe(CAPACITY);
    expect(said(paper, [served(0), served(900, 0)])).toBe(0);
  });

  test('nothing served: steady if nothing waits, else what waits', () => {
    expect(burstRatio(served(0, 0), CAPACITY)).toBe(1);
    expect(burstRatio(served(0, 10), CAPACITY)).toBeGreaterThan(1000);
    expect(said(paper, [served(0, 0)])).toBe(0);
    expect(said(paper, [served(0, 400)])).toBe(400);
  });
});

describe('MAE', () => {
  test('is Eq. 16 over the pairs there are', () => {
    expect(meanAbsoluteError([undefined, 5, 10], [100, 7, 6])).toBe(3);
    expect(() => meanAbsoluteError([undefined], [1])).toThrow(RangeError);
  });
});

describe('the panel', () => {
  const ours = panel({ capacityBytes: CAPACITY });

  test('learns a repeating load, however long its period', () => {
    for (const period of [2, 7, 31]) {
      const series = Array.from({ length: period * 12 }, (_, index) =>
        served(index % period === 0 ? 800 : 50),
      );
      const learnt = series.slice(period * 6);
      const forecasts = forecastAll(ours, series).slice(period * 6);
      const error = meanAbsoluteError(
        forecasts,
        learnt.map(({ servedBytes }) => servedBytes),
      );
      expect(error).toBeLessThan(25);
    }
  });

  test('knows that a queue has to be served, and not more than B_logic at once', () => {
    const quiet = Array.from({ length: 30 }, () => served(100));
    // 100 arrive per interval, then 5000 at once: they are served at 1000 per interval.
    const burst = [served(1000, 4100), served(1000, 3200), served(1000, 2300), served(1000, 1400)];
    expect(said(ours, [...quiet, ...burst])).toBeCloseTo(1000, -1);
    const end = [...burst, served(1000, 500), served(600, 0)];
    expect(said(ours, [...quiet, ...end])).toBeLessThan(300);
  });

  test('is not much worse than the best of SESM and BA-ESM on noise', () => {
    const random = new SeededRandom(5);
    const series = Array.from({ length: 2000 }, () => served(random.next() * 400));
    const best = Math.min(
      forecastError(sesm(0.1, CAPACITY), series),
      forecastError(sesm(0.6, CAPACITY), series),
      forecastError(paper, series),
    );
    expect(forecastError(ours, series)).toBeLessThan(1.15 * best);
  });
});

describe('every forecaster', () => {
  const all = [sesm(0.1, CAPACITY), sesm(0.9, CAPACITY), paper, panel({ capacityBytes: CAPACITY })];

  test('stays within 0 and B_logic, and says the same for the same', () => {
    for (let seed = 1; seed <= 15; seed += 1) {
      const random = new SeededRandom(seed);
      const series = Array.from({ length: 200 }, () =>
        served(
          random.next() < 0.2 ? 0 : random.next() * CAPACITY,
          random.next() < 0.3 ? 0 : random.next() * 10 * CAPACITY,
        ),
      );
      for (const forecaster of all as Forecaster<unknown>[]) {
        const forecasts = forecastAll(forecaster, series);
        expect(forecastAll(forecaster, series)).toEqual(forecasts);
        const made = forecasts.slice(1).map((forecast) => forecast ?? Number.NaN);
        expect(Math.min(...made)).toBeGreaterThanOrEqual(0);
        expect(Math.max(...made)).toBeLessThanOrEqual(CAPACITY);
      }
    }
  });

  test('refuses parameters that make no sense', () => {
    expect(() => sesm(1.5, CAPACITY)).toThrow(RangeError);
    expect(() => sesm(0.5, 0)).toThrow(RangeError);
    expect(() => baEsm({ alpha: 0.1, low: 2, high: 1, capacityBytes: 1 })).toThrow(RangeError);
    expect(() => panel({ capacityBytes: 0 })).toThrow(RangeError);
  });
});

import { baEsm, burstRatio, type Forecaster, type Observation, sesm } from '@stevedore/balance';
import { forecastAll, meanAbsoluteError } from '@stevedore/bench/forecast-error';
import { SeededRandom } from '@stevedore/bench/seeded-random';
import { describe, expect, test } from 'vitest';

const CAPACITY = 1000;
/** As in the paper: what is served is the load, and what waits is the queue. */
const served = (servedBytes: number, queuedBytes = 0): Observation => ({
  loadBytes: servedBytes,
  servedBytes,
  queuedBytes,
});
const paper = baEsm({ alpha: 0.1, burstEnd: 0.9, burstBegin: 1.1 }, CAPACITY);

/** What each forecaster says after these observations. */
function said<S>(forecaster: Forecaster<S>, series: readonly Observation[]): number {
  return forecastAll(forecaster, [...series, served(0)]).at(-1)!;
}

test('SESM is Eq. 7, and begins with the first observation', () => {
  expect(said(sesm(0.1, CAPACITY), [served(100)])).toBe(100);
  expect(said(sesm(0.1, CAPACITY), [served(100), served(200)])).toBeCloseTo(110);
  expect(said(sesm(0.9, CAPACITY), [served(100), served(200)])).toBeCloseTo(190);
});

describe('BA-ESM', () => {
  test('is SESM while the ratio is between the marks, and at them', () => {
    for (const queued of [90, 95, 100, 110]) {
      const series = [served(100, 100), served(100, queued), served(100, queued)];
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

  test('smooths the load, and corrects it by what is queued and served', () => {
    const observed = { loadBytes: 500, servedBytes: 100, queuedBytes: 300 };
    // 0.1 · 500 + 0.9 · 400, and 200 more came than were served.
    expect(said(paper, [served(400, 400), observed])).toBeCloseTo(610);
  });

  test('neither a queue nor what is served counts beyond B_logic', () => {
    expect(burstRatio(served(500, 5000), CAPACITY)).toBe(2);
    expect(burstRatio(served(5000, 5000), CAPACITY)).toBe(1);
    expect(said(paper, [served(500, 5000)])).toBeLessThanOrEqual(CAPACITY);
    expect(said(paper, [served(5000, 5000)])).toBe(CAPACITY);
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

test('MAE is Eq. 16 over the pairs there are', () => {
  expect(meanAbsoluteError([undefined, 5, 10], [100, 7, 6])).toBe(3);
  expect(() => meanAbsoluteError([undefined], [1])).toThrow(RangeError);
});

describe('every forecaster', () => {
  test('stays within 0 and B_logic, and says the same for the same', () => {
    for (let seed = 1; seed <= 15; seed += 1) {
      const random = new SeededRandom(seed);
      const some = (most: number) => (random.next() < 0.2 ? 0 : random.next() * most);
      const series = Array.from({ length: 200 }, () => ({
        loadBytes: some(CAPACITY),
        servedBytes: some(2 * CAPACITY),
        queuedBytes: some(10 * CAPACITY),
      }));
      for (const forecaster of [sesm(0.1, CAPACITY), sesm(0.9, CAPACITY), paper]) {
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
    expect(() => baEsm({ alpha: 0.1, burstEnd: 2, burstBegin: 1 }, 1)).toThrow(RangeError);
  });
});

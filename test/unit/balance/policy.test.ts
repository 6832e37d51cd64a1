import {
  baEsm,
  type Counted,
  decideInterval,
  type IntervalReport,
  loadAlone,
  observationOf,
  parameters,
  startPolicy,
} from '@stevedore/balance';
import { SeededRandom } from '@stevedore/bench/seeded-random';
import { describe, expect, test } from 'vitest';

/** What a metadata server decides at the end of an interval. */

const CAPACITY_BYTES = 1000;
const PARAMETERS = parameters({ minimumThresholdBytes: 1, maximumThresholdBytes: 1e6 });
const NONE: Counted = { servedBytes: 0, waitingBytes: 0, waitedMs: 0, ranMs: 0 };

const counted = (servedBytes: number, waitingBytes = 0): Counted => ({
  ...NONE,
  servedBytes,
  waitingBytes,
});

function decide(report: Partial<IntervalReport>, state = startPolicy(100)) {
  const whole = { metadata: NONE, smallFile: NONE, usedShare: 0, accessed: [], ...report };
  return decideInterval(state, whole, CAPACITY_BYTES, PARAMETERS);
}

describe('the load of a class without the other', () => {
  test('is what was served and what waits, and no more than the server can serve', () => {
    expect(loadAlone(counted(300, 200), CAPACITY_BYTES)).toBe(500);
    expect(loadAlone(counted(300, 5000), CAPACITY_BYTES)).toBe(CAPACITY_BYTES);
  });

  test('is more where requests wait for their turn, whose clients would ask sooner', () => {
    const waited = { ...counted(100, 20), waitedMs: 30, ranMs: 10 };
    expect(loadAlone(waited, CAPACITY_BYTES)).toBe(400);
    expect(loadAlone({ ...waited, waitedMs: 0 }, CAPACITY_BYTES)).toBe(120);
    expect(loadAlone({ ...waited, waitedMs: 1e9 }, CAPACITY_BYTES)).toBe(CAPACITY_BYTES);
  });
});

describe('the forecast', () => {
  /** Intervals in which a queue grows, stays, shrinks and is not there. */
  const series = Array.from({ length: 200 }, (_, at) => {
    const random = new SeededRandom(at + 1);
    const servedBytes = 100 + random.below(300);
    const ranMs = 10 + random.below(20);
    return { servedBytes, waitingBytes: random.below(400), waitedMs: random.below(60), ranMs };
  });

  /** Forecasts of the daemon, and those of BA-ESM fed with something. */
  function forecasts(kind: 'metadata' | 'smallFile') {
    let state = startPolicy(100);
    return series.map((each) => {
      const decision = decide({ [kind]: each }, state);
      state = decision.state;
      return decision.forecast[`${kind}Bytes`];
    });
  }
  function fedWith(load: (each: Counted) => number) {
    const forecaster = baEsm(PARAMETERS, CAPACITY_BYTES);
    let state = forecaster.initial;
    return series.map((each, at) => {
      const before = series[at - 1]?.waitingBytes ?? 0;
      const observed = { ...observationOf(each, before, CAPACITY_BYTES), loadBytes: load(each) };
      const step = forecaster.step(state, observed);
      state = step.state;
      return step.bytes;
    });
  }

  test.each(['metadata', 'smallFile'] as const)(
    'of %s is BA-ESM over L′, not over what was served or what waits alone',
    (kind) => {
      expect(forecasts(kind)).toEqual(fedWith((each) => loadAlone(each, CAPACITY_BYTES)));
      expect(forecasts(kind)).not.toEqual(fedWith(({ servedBytes }) => servedBytes));
      expect(forecasts(kind)).not.toEqual(fedWith(({ waitingBytes }) => waitingBytes));
    },
  );

  test('is the load while that is steady, with a short queue or none', () => {
    for (const waiting of [0, 10, 200]) {
      let state = startPolicy(100);
      let last = 0;
      for (let n = 0; n < 100; n += 1) {
        const decision = decide({ smallFile: counted(300, waiting) }, state);
        state = decision.state;
        last = decision.forecast.smallFileBytes;
      }
      expect(last).toBeCloseTo(300 + waiting, 0);
    }
  });

  test('sees a burst in the queue when it begins, and its end', () => {
    let state = startPolicy(100);
    const forecast = (each: Counted) => {
      const decision = decide({ metadata: each }, state);
      state = decision.state;
      return decision.forecast.metadataBytes;
    };
    for (let n = 0; n < 20; n += 1) forecast(counted(100));
    // 500 more came than could be served.
    expect(forecast(counted(400, 500))).toBeCloseTo(0.9 * 100 + 0.1 * 900 + 500);
    for (let n = 0; n < 40; n += 1) forecast(counted(400, 500));
    expect(forecast(counted(500, 0))).toBeLessThan(500);
  });
});

test('each class is forecast from its own queue, and what is too much has to move', () => {
  const accessed = ['a', 'b', 'c'].map((id) => ({ id, sizeBytes: 10, loadBytes: 150 }));
  const decided = decide({ metadata: counted(800), smallFile: counted(400), accessed });
  expect(decided.forecast).toEqual({ metadataBytes: 800, smallFileBytes: 400 });
  expect(decided.load).toEqual(decided.forecast);
  expect(decided.loadToMoveBytes).toBeCloseTo(200);
  expect(decided.allowedSmallFileBytes).toBe(200);
  expect(decided.selection.files.map(({ id }) => id)).toEqual(['a', 'b']);
});

test('the threshold follows the load that was served, as a share of the capacity, and the used share', () => {
  const of = (servedBytes: number, report: Partial<IntervalReport> = {}) =>
    decide({ metadata: counted(servedBytes, 5000), ...report }).state.thresholdBytes;
  expect(of(600)).toBe(100);
  expect(of(900)).toBeCloseTo(95);
  expect(of(900, { leastByLoadBytes: 98 })).toBe(98);
  expect(of(100)).toBeCloseTo(105);
  expect(of(600, { usedShare: 0.9 })).toBeCloseTo(95);
});

test('metadata counts with its last load, if that is more than its forecast', () => {
  let state = startPolicy(100);
  for (let n = 0; n < 20; n += 1) {
    state = decide({ metadata: counted(100), smallFile: counted(100) }, state).state;
  }
  // Nothing of it waits: the forecast has only begun to rise.
  const burst = decide({ metadata: counted(900), smallFile: counted(300) }, state);
  expect(burst.forecast.metadataBytes).toBeLessThan(200);
  expect(burst.allowedSmallFileBytes).toBeCloseTo(100);
  expect(burst.loadToMoveBytes).toBeCloseTo(burst.forecast.smallFileBytes - 100);
});

test('small files are limited while there is metadata, served or waiting', () => {
  const allowed = (metadata: Counted) => decide({ metadata }).allowedSmallFileBytes;
  expect(allowed(NONE)).toBeUndefined();
  expect(allowed(counted(400))).toBe(600);
  expect(allowed(counted(0, 1))).toBeCloseTo(998);
});

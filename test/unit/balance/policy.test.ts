import {
  decideInterval,
  type Forecaster,
  type IntervalReport,
  parameters,
  startPolicy,
} from '@stevedore/balance';
import { expect, test } from 'vitest';

/** What a metadata server decides at the end of an interval, by a forecast that tells what it got. */

const CAPACITY_BYTES = 1000;
const PARAMETERS = parameters({ minimumThresholdBytes: 1, maximumThresholdBytes: 1e6 });

/** Expects what was served to be served again; its state counts the intervals. */
const same: Forecaster<number> = {
  name: 'same',
  initial: 0,
  step: (state, { servedBytes, waitingBytes }) => ({
    state: state + 1 + waitingBytes,
    bytes: servedBytes,
  }),
};

function decide(report: Partial<IntervalReport>) {
  const none = { servedBytes: 0, waitingBytes: 0 };
  const whole = { metadata: none, smallFile: none, usedShare: 0, accessed: [], ...report };
  const start = startPolicy(same, 100);
  return decideInterval(start, whole, same, CAPACITY_BYTES, PARAMETERS);
}

test('the first interval begins with the forecaster’s state and the threshold given', () => {
  const forecaster = { ...same, initial: 7 };
  expect(startPolicy(forecaster, 100)).toEqual({ metadata: 7, smallFile: 7, thresholdBytes: 100 });
});

test('each class is forecast from its own queue, and what is too much has to move', () => {
  const accessed = ['a', 'b', 'c'].map((id) => ({ id, sizeBytes: 10, loadBytes: 150 }));
  const metadata = { servedBytes: 800, waitingBytes: 2 };
  const smallFile = { servedBytes: 400, waitingBytes: 3 };
  const decided = decide({ metadata, smallFile, accessed });
  expect(decided.forecast).toEqual({ metadataBytes: 800, smallFileBytes: 400 });
  expect(decided.state).toMatchObject({ metadata: 3, smallFile: 4 });
  expect(decided.loadToMoveBytes).toBeCloseTo(200);
  expect(decided.allowedSmallFileBytes).toBe(200);
  expect(decided.selection.files.map(({ id }) => id)).toEqual(['a', 'b']);
});

test('what each class would be served alone is what is forecast, and not what counts as load', () => {
  const metadata = { servedBytes: 100, waitingBytes: 0 };
  const smallFile = { servedBytes: 50, waitingBytes: 0 };
  const alone = { metadataBytes: 700, smallFileBytes: 600 };
  const decided = decide({ metadata, smallFile, alone });
  expect(decided.forecast).toEqual(alone);
  expect(decided.loadToMoveBytes).toBeCloseTo(300);
  // 150 of 1000 is little load.
  expect(decided.state.thresholdBytes).toBeCloseTo(105);
});

test('the threshold follows the load as a share of the disk’s bandwidth, and the used share', () => {
  const metadata = { servedBytes: 300, waitingBytes: 0 };
  const smallFile = { servedBytes: 300, waitingBytes: 0 };
  const of = (report: Partial<IntervalReport>) =>
    decide({ metadata, smallFile, ...report }).state.thresholdBytes;
  expect(of({})).toBe(100);
  expect(of({ bandwidthBytes: 700 })).toBeCloseTo(95);
  expect(of({ bandwidthBytes: 700, leastByLoadBytes: 98 })).toBe(98);
  expect(of({ bandwidthBytes: 10_000 })).toBeCloseTo(105);
  expect(of({ usedShare: 0.9 })).toBeCloseTo(95);
});

test('small files are limited while there is metadata, served or waiting, and by what it tolerates', () => {
  const allowed = (servedBytes: number, waitingBytes: number, sustainableBytes?: number) =>
    decide({ metadata: { servedBytes, waitingBytes }, sustainableBytes }).allowedSmallFileBytes;
  expect(allowed(0, 0)).toBeUndefined();
  expect(allowed(400, 0)).toBe(600);
  expect(allowed(0, 1)).toBe(1000);
  expect(allowed(400, 0, 250)).toBe(250);
});

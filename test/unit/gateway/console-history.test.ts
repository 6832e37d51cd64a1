import { expect, test } from 'vitest';
import { History, type Reading } from '../../../gateway/dist/console/history.js';

const START = Date.parse('2026-01-02T00:00:00Z');
const nothing = {
  uploads: 0,
  downloads: 0,
  cacheHits: 0,
  cacheMisses: 0,
  trunks: 0,
  fill: 0,
  stagedBytes: 0,
  load: undefined,
};
const reading = (at: number, figures: Partial<Reading> = {}): Reading => ({
  ...nothing,
  at: START + at,
  ...figures,
});

test('totals become rates and shares of each step, and figures of the moment stay', () => {
  const history = new History();
  history.add(reading(0, { uploads: 100, stagedBytes: 5 }));
  history.add(reading(5_000, { uploads: 150, downloads: 20, cacheHits: 3, cacheMisses: 1 }));
  history.add(reading(9_000, { uploads: 190, downloads: 20, cacheHits: 3, cacheMisses: 1 }));
  const load = { load: 0.5, forecast: 0.75 };
  history.add(
    reading(15_000, { uploads: 190, downloads: 20, trunks: 2, fill: 1.5, stagedBytes: 7, load }),
  );
  expect(history.table('hour')).toEqual({
    stepMs: 10_000,
    at: [START / 1000, START / 1000 + 10],
    uploadsPerSecond: [10, 0],
    downloadsPerSecond: [2.222, 0],
    stagedBytes: [0, 7],
    trunksPerMinute: [0, 20],
    fill: [null, 0.75],
    cacheHits: [0.75, null],
    load: [null, 0.5],
    forecast: [null, 0.75],
  });
  expect(history.table('day').at).toEqual([START / 1000]);
});

test('a total that falls has begun again: nothing is negative', () => {
  const history = new History();
  history.add(reading(0, { uploads: 1000 }));
  history.add(reading(5_000, { uploads: 10 }));
  expect(history.table('hour').uploadsPerSecond).toEqual([0]);
});

test('a time without readings is a gap', () => {
  const history = new History();
  history.add(reading(0, { stagedBytes: 1 }));
  history.add(reading(60_000, { stagedBytes: 2 }));
  const { at, stagedBytes } = history.table('hour');
  expect(at.map((seconds) => seconds - START / 1000)).toEqual([0, 50, 60]);
  expect(stagedBytes).toEqual([1, null, 2]);
});

test('an hour of ten seconds and a day of minutes are kept, no more', () => {
  const history = new History();
  const days = 3 * 86_400_000;
  for (let at = 0; at <= days; at += 5_000) history.add(reading(at, { uploads: at / 1000 }));
  const hour = history.table('hour');
  const day = history.table('day');
  expect([hour.at.length, day.at.length]).toEqual([360, 1440]);
  expect([hour.at.at(-1), day.at.at(-1)]).toEqual([(START + days) / 1000, (START + days) / 1000]);
  for (const { uploadsPerSecond } of [hour, day]) {
    expect(new Set(uploadsPerSecond)).toEqual(new Set([1]));
  }
});

test('a clock that is set back neither counts twice nor stops the history', () => {
  const history = new History();
  for (let at = 0; at <= 100_000; at += 5_000) history.add(reading(at, { uploads: at / 1000 }));
  history.add(reading(10_000, { uploads: 105 }));
  history.add(reading(15_000, { uploads: 115 }));
  const { at, uploadsPerSecond } = history.table('hour');
  expect(at.map((seconds) => seconds - START / 1000)).toEqual([0, 10]);
  expect(uploadsPerSecond.at(-1)).toBeGreaterThan(0);
  expect(at).toEqual([...at].sort((one, other) => one - other));
});

import { expect, it } from 'vitest';
import { type ProcessFigures, sumStats, Totals } from '../../../../gateway/dist/workers/totals.js';

function figures(uploads: number, free: number): ProcessFigures {
  const counter = { name: 'uploads_total', help: 'x', type: 'counter', aggregator: 'sum' };
  const gauge = { name: 'free', help: 'x', type: 'gauge', aggregator: 'min' };
  const all = [
    { ...counter, values: [{ labels: { kind: 'a' }, value: uploads }] },
    { ...gauge, values: [{ labels: {}, value: free }] },
  ];
  return all;
}

it('counters are added up, and do not fall when a worker ends', async () => {
  const totals = new Totals([1, 2]);
  const one = figures(5, 30);
  const two = figures(7, 20);
  const text = await totals.text(
    new Map([
      [1, one],
      [2, two],
    ]),
    [],
  );
  expect(text).toContain('uploads_total{kind="a"} 12');
  expect(text).toContain('free 20');
  for (const again of [figures(1, 40), figures(2, 50)]) {
    totals.noteRestart(2);
    await totals.text(
      new Map([
        [1, one],
        [2, again],
      ]),
      [],
    );
  }
  const last = await totals.text(
    new Map([
      [1, one],
      [2, figures(4, 50)],
    ]),
    [],
  );
  // 5, and of the second worker 7, 1 and now 4.
  expect(last).toContain('uploads_total{kind="a"} 17');
  expect(last).toContain('free 30');
  expect(last).toContain('stevedore_worker_restarts_total{worker="2"} 2');
});

it('of stores, numbers are added up, and the worst of one disk and one map counts', () => {
  const stats = (files: number, freeBytes: number, isMapAvailable: boolean, hits: number) => ({
    stagedFiles: files,
    room: { freeBytes, usedBytes: files, full: undefined },
    cache: { hits, misses: 1, hitRatio: hits / (hits + 1), hitBytes: 0, missBytes: 0 },
    map: { pending: files, isMapAvailable },
  });
  const full = { ...stats(3, 5, false, 2), room: { freeBytes: 5, usedBytes: 1, full: 'disk' } };
  expect(sumStats([stats(1, 9, true, 1), full] as never)).toMatchObject({
    stagedFiles: 4,
    room: { freeBytes: 5, usedBytes: 2, full: 'disk' },
    cache: { hits: 3, misses: 2, hitRatio: 0.6, byteHitRatio: 0 },
    map: { pending: 4, isMapAvailable: false },
  });
  expect(sumStats([full] as never)).toBe(full);
});

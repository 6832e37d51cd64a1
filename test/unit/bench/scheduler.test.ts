import { SeededRandom } from '@stevedore/bench/seeded-random';
import { expect, test } from 'vitest';
import { observe } from '../../../bench/dist/migration/scheduler.js';
import {
  IOR,
  ior,
  metadataTrace,
  PAPER_METADATA,
} from '../../../bench/dist/migration/workloads.js';

const SCHEDULER = { bytesPerSecond: 20e6, intervalMs: 1000, holdMs: 0, seed: 1 };

function served(intervals: ReturnType<typeof observe>): number {
  return intervals.reduce((sum, { servedBytes }) => sum + servedBytes, 0);
}

test('the paper’s trace comes out whole: 15,000 entries of 1 KB per repetition', () => {
  const workload = metadataTrace({ ...PAPER_METADATA, repetitions: 3 }, new SeededRandom(1));
  const intervals = observe(workload, SCHEDULER);
  expect(served(intervals)).toBe(45_000 * 1024);
  expect(intervals.at(-1)).toMatchObject({ waitingBytes: 0 });
});

test('no request is lost: every transfer of every client is answered', () => {
  for (const clients of [1, 12]) {
    const options = { ...IOR, clients: [clients], filesPerBarrier: 4, barriersPerPhase: 20 };
    const transfers = 2 * IOR.transfersPerFile * 4 * 20 * clients;
    const intervals = observe(ior(options, new SeededRandom(2)), SCHEDULER);
    expect(served(intervals)).toBe(transfers * IOR.transferBytes);
  }
});

test('what is held back waits, and other seeds hold it back otherwise', () => {
  const run = (seed: number, holdMs: number) =>
    observe(metadataTrace({ ...PAPER_METADATA, repetitions: 1 }, new SeededRandom(1)), {
      ...{ ...SCHEDULER, seed, holdMs },
    });
  expect(run(1, 500)).toEqual(run(1, 500));
  expect(run(2, 500)).not.toEqual(run(1, 500));
  expect(run(1, 0)[0]?.waitingBytes).toBeLessThan(run(1, 500)[0]?.waitingBytes ?? 0);
});

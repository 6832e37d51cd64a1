import type { Figures } from '../harness/figures.js';
import { fetchId } from './fetching.js';
import { FETCH_CONCURRENCIES, WRITE_CONCURRENCIES } from './paper.js';
import { writeId } from './writing.js';

/** What client merging is to reach. Ratios are medians of the runs' own ratios. */

const ACKNOWLEDGED_TIMES = 2;
const STORED_TIMES = 1.5;
const FETCH_TIMES = 1.3;
const MAX_FALL_PERCENT = 10;

export function addClientMergingGoals(figures: Figures): void {
  const least = (ids: readonly string[]) =>
    Math.min(...ids.map((id) => figures.summary(id).median));
  const atLeast = (id: string, goal: string, value: number, bound: number) =>
    figures.addGoal({ id, goal, value, met: value >= bound });

  atLeast(
    'write.acknowledged.vs-direct',
    `acknowledged: at least ${ACKNOWLEDGED_TIMES} x no merging at every concurrency (the least)`,
    least(WRITE_CONCURRENCIES.map((c) => writeId('acknowledged', c, 'vs-direct'))),
    ACKNOWLEDGED_TIMES,
  );
  atLeast(
    'write.stored.vs-direct',
    `stored: at least ${STORED_TIMES} x no merging at every concurrency (the least)`,
    least(WRITE_CONCURRENCIES.map((c) => writeId('stored', c, 'vs-direct'))),
    STORED_TIMES,
  );
  const { median: fall } = figures.summary('write.stored.fall-c20-c200');
  figures.addGoal({
    id: 'write.stored.fall-c20-c200',
    goal: `stored: falls by less than ${MAX_FALL_PERCENT} % from 20 to 200`,
    value: fall,
    met: fall < MAX_FALL_PERCENT,
  });
  atLeast(
    'fetch.merged-default.vs-direct',
    `fetches of merged files, default configuration: at least ${FETCH_TIMES} x no merging at every concurrency (the least)`,
    least(FETCH_CONCURRENCIES.map((c) => fetchId('merged-default', c, 'vs-direct'))),
    FETCH_TIMES,
  );
}

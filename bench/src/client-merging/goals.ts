import { atLeast, type Goal, leastOf, medianOf, under } from '../harness/goals.js';
import { fetchId } from './fetching.js';
import { FETCH_CONCURRENCIES, WRITE_CONCURRENCIES } from './paper.js';
import { writeId } from './writing.js';

/** What client merging is to reach. Ratios are medians of the runs' own ratios. */

const ACKNOWLEDGED_TIMES = 2;
const STORED_TIMES = 1.5;
const FETCH_TIMES = 1.3;
const MAX_FALL_PERCENT = 10;

export const WRITE_GOALS: readonly Goal[] = [
  atLeast(
    'write.acknowledged.vs-direct',
    `acknowledged: at least ${ACKNOWLEDGED_TIMES} x no merging at every concurrency (the least)`,
    ACKNOWLEDGED_TIMES,
    leastOf(WRITE_CONCURRENCIES.map((c) => writeId('acknowledged', c, 'vs-direct'))),
  ),
  atLeast(
    'write.stored.vs-direct',
    `stored: at least ${STORED_TIMES} x no merging at every concurrency (the least)`,
    STORED_TIMES,
    leastOf(WRITE_CONCURRENCIES.map((c) => writeId('stored', c, 'vs-direct'))),
  ),
  under(
    'write.stored.fall-c20-c200',
    `stored: falls by less than ${MAX_FALL_PERCENT} % from 20 to 200`,
    MAX_FALL_PERCENT,
    medianOf('write.stored.fall-c20-c200'),
  ),
];

export const FETCH_GOALS: readonly Goal[] = [
  atLeast(
    'fetch.merged-default.vs-direct',
    `fetches of merged files, default configuration: at least ${FETCH_TIMES} x no merging at every concurrency (the least)`,
    FETCH_TIMES,
    leastOf(FETCH_CONCURRENCIES.map((c) => fetchId('merged-default', c, 'vs-direct'))),
  ),
];

import { atLeast, atMost, type Goal, leastOf, medianOf } from '../harness/goals.js';
import { GROWTH } from './memory.js';
import { APART_TIMES } from './pieces.js';
import { GOAL_CONNECTIONS, SIZES } from './plan.js';
import { ratioId } from './transfers.js';

/** What the client is to reach. Ratios are medians of the runs' own ratios. */

const UPLOAD_TIMES = 3;
const MEMORY_TIMES = 1.1;
const PIECES_TIMES = 1.2;

/**
 * Judged where no disk takes part: what a synced upload waits for is the same for
 * both clients, and says nothing about either.
 */
export const TRANSFER_GOALS: readonly Goal[] = [
  atLeast(
    `upload.c${GOAL_CONNECTIONS}.vs-fdfs`,
    `uploads at ${GOAL_CONNECTIONS} connections: at least ${UPLOAD_TIMES} x fdfs, against the cluster in memory (the least of the sizes)`,
    UPLOAD_TIMES,
    leastOf(SIZES.map((size) => ratioId('upload', 'memory', size, GOAL_CONNECTIONS, 'vs-fdfs'))),
  ),
];

export const MEMORY_GOALS: readonly Goal[] = [
  atMost(
    GROWTH,
    `heap after the last operation: at most ${MEMORY_TIMES} x that after a tenth of them`,
    MEMORY_TIMES,
    medianOf(GROWTH),
  ),
];

export const PIECES_GOALS: readonly Goal[] = [
  atMost(
    APART_TIMES,
    `an upload of 20 KB written as the C client does, one at a time: at most ${PIECES_TIMES} x ours`,
    PIECES_TIMES,
    medianOf(APART_TIMES),
  ),
];

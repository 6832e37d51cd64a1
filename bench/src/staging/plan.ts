import { plans } from '../harness/benchmark.js';

/** How much is measured. */

const FULL = {
  runs: 5,
  /** Files in the directories that are started. */
  startFiles: 1_000_000,
  /** Rows of the large FileMap. */
  largeRows: 5_000_000,
  /** Runs of the costs: short ones, whose ratios scatter. */
  costRuns: 9,
  /** How long a started process is watched. */
  watchSeconds: 3,
};
export type Plan = typeof FULL;

export const PLANS = plans(
  FULL,
  {
    ...{ runs: 2, startFiles: 100_000, largeRows: 300_000, costRuns: 2 },
    watchSeconds: 0.5,
  },
  {
    ...{ runs: 1, startFiles: 2_000, largeRows: 20_000, costRuns: 1 },
    watchSeconds: 0.1,
  },
);

export const SMALL_ROWS = 10_000;

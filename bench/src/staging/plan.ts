import type { Scale } from '../harness/benchmark.js';

/** How much is measured. */

export interface Plan {
  readonly runs: number;
  /** Files in the directories that are started. */
  readonly startFiles: number;
  /** Rows of the large FileMap. */
  readonly largeRows: number;
  /** Runs of the costs: short ones, whose ratios scatter. */
  readonly costRuns: number;
  /** Bytes of the files that a run uploads, and of those that are all small. */
  readonly writeBytes: number;
  readonly smallWriteBytes: number;
  /** How long a started process is watched. */
  readonly watchSeconds: number;
}

export const PLANS: Readonly<Record<Scale, Plan>> = {
  full: {
    ...{ runs: 5, startFiles: 1_000_000, largeRows: 5_000_000, costRuns: 9 },
    ...{ writeBytes: 160e6, smallWriteBytes: 40e6, watchSeconds: 3 },
  },
  quick: {
    ...{ runs: 3, startFiles: 100_000, largeRows: 500_000, costRuns: 3 },
    ...{ writeBytes: 40e6, smallWriteBytes: 10e6, watchSeconds: 1 },
  },
  smoke: {
    ...{ runs: 1, startFiles: 2_000, largeRows: 20_000, costRuns: 1 },
    ...{ writeBytes: 4e6, smallWriteBytes: 1e6, watchSeconds: 0.1 },
  },
};

export const SMALL_ROWS = 10_000;

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
  /** Files that are stored per upload and container run, in bytes. */
  readonly writeBytes: number;
  /** The same for uploads of SMALL_BODY_BYTES. */
  readonly smallWriteBytes: number;
  /** How long a started process is watched, in seconds. */
  readonly watchSeconds: number;
}

export const PLANS: Readonly<Record<Scale, Plan>> = {
  full: {
    runs: 5,
    startFiles: 1_000_000,
    largeRows: 5_000_000,
    costRuns: 9,
    writeBytes: 160e6,
    smallWriteBytes: 40e6,
    watchSeconds: 3,
  },
  quick: {
    runs: 3,
    startFiles: 100_000,
    largeRows: 500_000,
    costRuns: 3,
    writeBytes: 40e6,
    smallWriteBytes: 10e6,
    watchSeconds: 1,
  },
  smoke: {
    runs: 1,
    startFiles: 2_000,
    largeRows: 20_000,
    costRuns: 1,
    writeBytes: 4e6,
    smallWriteBytes: 1e6,
    watchSeconds: 0.1,
  },
};

export const SMALL_ROWS = 10_000;
/** Body of a file in the directories that are started. */
export const START_BODY_BYTES = 100;
export const SMALL_BODY_BYTES = 4_096;
export const IN_FLIGHT = 64;
export const MIN_FILE_BYTES = 2_000;
export const MAX_FILE_BYTES = 100_000;
export const SEED = 21;

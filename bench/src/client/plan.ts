import type { Scale } from '../harness/benchmark.js';

/** How much is measured. */

export interface Plan {
  readonly runs: number;
  /** Length of one measurement of uploads, and of one of downloads. */
  readonly uploadSeconds: number;
  readonly downloadSeconds: number;
  /** Before the clock starts, so that code is compiled. */
  readonly warmUpSeconds: number;
  readonly memoryRuns: number;
  /** Uploads, downloads and deletes together. */
  readonly memoryOperations: number;
  /** Uploads one at a time, in each way of writing them. */
  readonly piecesUploads: number;
  /** Calls that do nothing, to learn what the load costs. */
  readonly costOperations: number;
}

export const PLANS: Readonly<Record<Scale, Plan>> = {
  full: {
    runs: 5,
    uploadSeconds: 1,
    downloadSeconds: 0.7,
    warmUpSeconds: 0.7,
    memoryRuns: 3,
    memoryOperations: 100_000,
    piecesUploads: 400,
    costOperations: 100_000,
  },
  quick: {
    runs: 3,
    uploadSeconds: 0.2,
    downloadSeconds: 0.15,
    warmUpSeconds: 0.2,
    memoryRuns: 1,
    memoryOperations: 10_000,
    piecesUploads: 200,
    costOperations: 100_000,
  },
  smoke: {
    runs: 1,
    uploadSeconds: 0.03,
    downloadSeconds: 0.03,
    warmUpSeconds: 0.03,
    memoryRuns: 1,
    memoryOperations: 600,
    piecesUploads: 5,
    costOperations: 1_000,
  },
};

export const CONNECTIONS = [1, 16, 64] as const;

export const SIZES = [
  { name: '1KB', bytes: 1_000 },
  { name: '20KB', bytes: 20_000 },
] as const;

export type Size = (typeof SIZES)[number];

/** The goal is about this many connections; the memory is measured with as many. */
export const GOAL_CONNECTIONS = 16;

export const SEED = 30;

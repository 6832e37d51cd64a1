/** How much is measured: in full, and quickly. */

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
}

export const FULL: Plan = {
  runs: 5,
  uploadSeconds: 1,
  downloadSeconds: 0.7,
  warmUpSeconds: 0.7,
  memoryRuns: 3,
  memoryOperations: 100_000,
};

export const QUICK: Plan = {
  runs: 3,
  uploadSeconds: 0.2,
  downloadSeconds: 0.15,
  warmUpSeconds: 0.2,
  memoryRuns: 1,
  memoryOperations: 10_000,
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

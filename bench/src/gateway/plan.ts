/** How much is measured: in full, and quickly. */

export interface Plan {
  /** With new processes each. */
  readonly runs: number;
  /** Measurements of every variant in a run, in turns. */
  readonly turns: number;
  /** Length of one measurement: short, so that all variants meet the machine as it is just then. */
  readonly seconds: number;
  /** Before the clock starts, so that code is compiled. */
  readonly warmUpSeconds: number;
}

export const FULL: Plan = { runs: 5, turns: 4, seconds: 0.5, warmUpSeconds: 2.5 };
export const QUICK: Plan = { runs: 2, turns: 3, seconds: 0.5, warmUpSeconds: 1.5 };

export const UPLOAD_CONNECTIONS = [1, 20, 100, 200] as const;
export const DOWNLOAD_CONNECTIONS = [20, 100, 200] as const;

export const FILE_BYTES = 20_000;
/** Files that are downloaded, all of them in memory or in the system's cache. */
export const FILES = 1000;

/** Goals are about the median of these. */
export const GOAL_RATIO = 0.9;

/** bare: a Fastify app without checks. gateway: as it is started. checked: every check on. */
export const VARIANTS = ['bare', 'gateway', 'checked'] as const;
export type Variant = (typeof VARIANTS)[number];

/** How much is measured: in full, and quickly. */

export interface Plan {
  readonly runs: number;
  /** Files that every writing variant begins to store, in the same order. */
  readonly writeBytes: number;
  /** Uploads one by one are steady: they stop after so long, the others at the end of the set. */
  readonly directSeconds: number;
  readonly fetchBytes: number;
  readonly fetchSeconds: number;
  /** Stored, or fetched, before the clock starts: code is compiled, connections are open. */
  readonly warmUpFiles: number;
  readonly warmUpSeconds: number;
  readonly packings: number;
}

const MB = 1e6;

export const FULL: Plan = {
  runs: 5,
  writeBytes: 280 * MB,
  directSeconds: 3,
  fetchBytes: 64 * MB,
  fetchSeconds: 1.5,
  warmUpFiles: 400,
  warmUpSeconds: 1,
  packings: 100,
};

export const QUICK: Plan = {
  runs: 3,
  writeBytes: 72 * MB,
  directSeconds: 0.5,
  fetchBytes: 20 * MB,
  fetchSeconds: 0.3,
  warmUpFiles: 200,
  warmUpSeconds: 0.3,
  packings: 20,
};

export const MIN_FILE_BYTES = 2_000;
export const MAX_FILE_BYTES = 100_000;
export const SEED = 20;

import type { Scale } from '../harness/benchmark.js';

/** How much is measured. */

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
  /** Calls that do nothing, to learn what the load costs. */
  readonly costOperations: number;
}

const MB = 1e6;

export const PLANS: Readonly<Record<Scale, Plan>> = {
  full: {
    runs: 5,
    writeBytes: 280 * MB,
    directSeconds: 3,
    fetchBytes: 64 * MB,
    fetchSeconds: 1.5,
    warmUpFiles: 400,
    warmUpSeconds: 1,
    packings: 100,
    costOperations: 200_000,
  },
  quick: {
    runs: 3,
    writeBytes: 72 * MB,
    directSeconds: 0.5,
    fetchBytes: 20 * MB,
    fetchSeconds: 0.3,
    warmUpFiles: 200,
    warmUpSeconds: 0.3,
    packings: 20,
    costOperations: 200_000,
  },
  smoke: {
    runs: 1,
    writeBytes: 1 * MB,
    directSeconds: 0.05,
    fetchBytes: 2 * MB,
    fetchSeconds: 0.05,
    warmUpFiles: 5,
    warmUpSeconds: 0.05,
    packings: 2,
    costOperations: 1_000,
  },
};

export const MIN_FILE_BYTES = 2_000;
export const MAX_FILE_BYTES = 100_000;
export const SEED = 20;
/** What a store keeps on its own disk beside files is less. */
export const OWN_BYTES = 2 ** 18;

import type { Scale } from '../harness/benchmark.js';

/** How much is measured. */

export interface Plan {
  readonly runs: number;
  /** Look-ups of one run, for each variant. */
  readonly lookUps: number;
  /** Bytes of the files on one node. */
  readonly dataBytes: number;
  /** Requests before a node is measured, so that its cache is what it will be. */
  readonly warmUpRequests: number;
  /** How long one load lasts: on the measured disk, on the slowed one. */
  readonly seconds: { readonly measured: number; readonly slowed: number };
  readonly threads: readonly number[];
  readonly cacheMebibytes: readonly number[];
  readonly nodes: readonly number[];
}

export const PLANS: Readonly<Record<Scale, Plan>> = {
  full: {
    runs: 5,
    lookUps: 2_000_000,
    dataBytes: 1e9,
    warmUpRequests: 30_000,
    seconds: { measured: 1, slowed: 2 },
    threads: [1, 2, 4, 8, 16, 32, 64],
    cacheMebibytes: [8, 16, 32, 64, 128, 256],
    nodes: [1, 2, 3, 4],
  },
  quick: {
    runs: 3,
    lookUps: 300_000,
    dataBytes: 300e6,
    warmUpRequests: 8_000,
    seconds: { measured: 0.6, slowed: 1.2 },
    threads: [1, 16],
    cacheMebibytes: [16, 64, 128],
    nodes: [1, 4],
  },
  smoke: {
    runs: 1,
    lookUps: 20_000,
    dataBytes: 10e6,
    warmUpRequests: 300,
    seconds: { measured: 0.05, slowed: 0.1 },
    threads: [16],
    cacheMebibytes: [64, 128],
    nodes: [1],
  },
};

export const SEED = 9;
/** Threads where the number of threads is not what is varied. */
export const THREADS = 16;
/** The cache where its size is not what is varied. */
export const CACHE_BYTES = 64 * 2 ** 20;
/** Room for what co-location reads along, where there is no cache. */
export const AHEAD_BUFFER_BYTES = 8 * 2 ** 20;
export const READ_AHEAD_BYTES = 2 ** 20;
export const MIN_FILE_BYTES = 5_000;
export const MAX_FILE_BYTES = 50_000;
export const MIN_MEMBERS = 4;
export const MAX_MEMBERS = 12;
/** Of the popularity of groups: the k-th most popular one is asked for k^-s as often. */
export const ZIPF_EXPONENT = 0.8;
/** Chance of each member of a group to be asked for when the group is. */
export const MEMBER_CHANCE = 0.9;
/** Reads for each write in the mixed load. */
export const READS_PER_WRITE = 20;
export const TRUNK_BYTES = 64 * 2 ** 20;

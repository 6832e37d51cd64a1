import { FILE_BYTES } from '../gateway/plan.js';
import type { Stored } from '../gateway/server.js';
import type { Scale } from '../harness/benchmark.js';
import { SeededRandom } from '../harness/seeded-random.js';

/** How much is measured, and of which files. */

export interface Plan {
  /** Measurements of every server, in turns. */
  readonly turns: number;
  readonly seconds: number;
  readonly warmUpSeconds: number;
  /** To be downloaded. */
  readonly files: number;
  /** Requests of one measurement, drawn beforehand. */
  readonly requests: number;
}

export const PLANS: Readonly<Record<Scale, Plan>> = {
  full: { turns: 7, seconds: 2, warmUpSeconds: 4, files: 20_000, requests: 40_000 },
  quick: { turns: 3, seconds: 1, warmUpSeconds: 2, files: 5_000, requests: 20_000 },
  smoke: { turns: 1, seconds: 0.05, warmUpSeconds: 0.05, files: 200, requests: 400 },
};

export const WORKLOADS = ['upload', 'fresh', 'uniform'] as const;
export type Workload = (typeof WORKLOADS)[number];

export const CONNECTIONS: Readonly<Record<Workload, readonly number[]>> = {
  upload: [1, 20, 100],
  fresh: [20, 100],
  uniform: [20, 100],
};

const LEAST_BYTES = 2_000;
const MOST_BYTES = 100_000;
const MEAN_BYTES = (MOST_BYTES - LEAST_BYTES) / Math.log(MOST_BYTES / LEAST_BYTES);
/** The gateway's cache in uniform reads: a tenth of the files. */
const CACHE_SHARE = 0.1;

export function cacheBytesFor(files: number): number {
  return Math.floor(files * MEAN_BYTES * CACHE_SHARE);
}

export const UPLOAD_BYTES = FILE_BYTES;

/** 2 to 100 KB, as many of each order of size; the same ones for every server. */
export function filesOf(count: number): readonly Required<Omit<Stored, 'path'>>[] {
  const random = new SeededRandom(11);
  return Array.from({ length: count }, (_, number) => ({
    number,
    bytes: Math.round(LEAST_BYTES * (MOST_BYTES / LEAST_BYTES) ** random.next()),
  }));
}

import type { Scale } from '../harness/benchmark.js';
import { Child } from '../harness/child.js';
import type { ClientHandlers } from './client-process.js';

/** How much is measured, and of what. */

export interface Plan {
  readonly runs: number;
  /** Length of one measurement of uploads, of one of downloads, and of a warm-up of each. */
  readonly uploadSeconds: number;
  readonly downloadSeconds: number;
  readonly warmUpSeconds: number;
  readonly memoryRuns: number;
  /** Uploads, downloads and deletes together. */
  readonly memoryOperations: number;
  /** Uploads one at a time, in each way of writing them. */
  readonly piecesUploads: number;
}

export const PLANS: Readonly<Record<Scale, Plan>> = {
  full: {
    ...{ runs: 5, uploadSeconds: 1, downloadSeconds: 0.7, warmUpSeconds: 0.35 },
    ...{ memoryRuns: 3, memoryOperations: 100_000, piecesUploads: 400 },
  },
  quick: {
    ...{ runs: 3, uploadSeconds: 0.2, downloadSeconds: 0.15, warmUpSeconds: 0.1 },
    ...{ memoryRuns: 1, memoryOperations: 10_000, piecesUploads: 200 },
  },
  smoke: {
    ...{ runs: 1, uploadSeconds: 0.03, downloadSeconds: 0.03, warmUpSeconds: 0.03 },
    ...{ memoryRuns: 1, memoryOperations: 600, piecesUploads: 5 },
  },
};

export const SEED = 30;
/** The goal is about this many connections; the memory is measured with as many. */
export const GOAL_CONNECTIONS = 16;
export const SIZES = { '1KB': 1_000, '20KB': 20_000 } as const;

/** A measured process, with its files made. */
export async function startClient(
  sizes: readonly number[] = Object.values(SIZES),
  nodeOptions: readonly string[] = [],
): Promise<Child<ClientHandlers>> {
  const module = new URL('./client-process.js', import.meta.url);
  const child = new Child<ClientHandlers>(module, { nodeOptions });
  await child.call('prepare', sizes);
  return child;
}

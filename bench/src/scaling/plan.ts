import type { Scale } from '../harness/benchmark.js';

/** How much is simulated and measured. */

export interface Plan {
  /** The population that the cache is driven with; the other one has a tenth. */
  readonly cacheFiles: number;
  /** Requests for each file: to warm up, and counted. */
  readonly warmUp: number;
  readonly counted: number;
  /** Most files of a simulated gateway, and most simulated days. */
  readonly trunkFiles: number;
  readonly trunkDays: number;
  /** Files whose rows are written to a FileMap and a map. */
  readonly indexFiles: number;
  /** Files of the smaller and the larger FileMap that are started. */
  readonly restartFiles: readonly [number, number];
  readonly restarts: number;
  readonly idleSeconds: number;
  readonly maxLookups: number;
  readonly real: RealPlan;
}

export interface RealPlan {
  readonly files: number;
  readonly meanBytes: number;
  readonly trunkBytes: number;
  /** The share of the files that the prediction of the indexes is made from. */
  readonly sampleShare: number;
  readonly roomShare: number;
  readonly exponent: number;
  /** Reads for each file: to warm up, and counted. */
  readonly warmUp: number;
  readonly counted: number;
}

const MIB = 2 ** 20;
const REAL = { meanBytes: 256, exponent: 0.9, roomShare: 0.1 };
const SMALL_REAL = { ...REAL, trunkBytes: MIB, warmUp: 2, counted: 2 };

export const PLANS: Readonly<Record<Scale, Plan>> = {
  full: {
    ...{ cacheFiles: 200_000, warmUp: 5, counted: 3, trunkFiles: 400_000, trunkDays: 365 },
    ...{ indexFiles: 200_000, restartFiles: [200_000, 2_000_000], restarts: 5 },
    ...{ idleSeconds: 20, maxLookups: 1_000_000 },
    real: {
      ...{ ...REAL, files: 1_000_000, trunkBytes: 4 * MIB },
      ...{ sampleShare: 0.05, warmUp: 0.3, counted: 0.3 },
    },
  },
  quick: {
    ...{ cacheFiles: 50_000, warmUp: 3, counted: 2, trunkFiles: 60_000, trunkDays: 100 },
    ...{ indexFiles: 40_000, restartFiles: [40_000, 400_000], restarts: 3 },
    ...{ idleSeconds: 5, maxLookups: 200_000 },
    real: { ...SMALL_REAL, files: 20_000, sampleShare: 0.25 },
  },
  smoke: {
    ...{ cacheFiles: 2_000, warmUp: 1, counted: 1, trunkFiles: 12_000, trunkDays: 10 },
    ...{ indexFiles: 1_000, restartFiles: [4_000, 8_000], restarts: 1 },
    ...{ idleSeconds: 0.5, maxLookups: 500 },
    real: { ...SMALL_REAL, files: 200, sampleShare: 0.5 },
  },
};

export const SEED = 2026;
export const MEAN_BYTES = 16_384;
export const EXPONENTS = [0.7, 0.9, 1.1] as const;
/** Of the reads that the map is asked about. */
export const READ_EXPONENT = 0.9;
export const FILES = [1e6, 1e7, 1e8, 1e9, 1e10, 1e11] as const;
export const GATEWAYS = [1, 10, 100, 1_000] as const;
/** The product's defaults, but ids may wait: full trunks say more of large numbers of files. */
export const DEFAULTS = {
  trunkBytes: 64 * MIB,
  maxAgeMs: 60_000,
  idMaxAgeMs: 7 * 86_400_000,
} as const;

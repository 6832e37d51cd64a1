import { plans } from '../harness/benchmark.js';

/** How much is simulated and measured. */

const MIB = 2 ** 20;
const REAL = {
  ...{ files: 1_000_000, meanBytes: 256, trunkBytes: 4 * MIB, roomShare: 0.1, exponent: 0.9 },
  /** The share of the files that the prediction of the indexes is made from. */
  sampleShare: 0.05,
  /** Reads for each file: to warm up, and counted. */
  ...{ warmUp: 0.3, counted: 0.3 },
};
export type RealPlan = typeof REAL;
const SMALL_REAL = { ...REAL, trunkBytes: MIB, warmUp: 2, counted: 2 };

const FULL = {
  /** The population that the cache is driven with; the other one has a tenth. */
  cacheFiles: 200_000,
  /** Requests for each file: to warm up, and counted. */
  ...{ warmUp: 5, counted: 3 },
  /** Most files of a simulated gateway, and most simulated days. */
  ...{ trunkFiles: 400_000, trunkDays: 365 },
  /** Files whose rows are written to a FileMap and a map. */
  indexFiles: 200_000,
  ...{ idleSeconds: 20, maxLookups: 1_000_000, real: REAL },
};
export type Plan = typeof FULL;

export const PLANS = plans(
  FULL,
  {
    ...{ cacheFiles: 20_000, warmUp: 3, counted: 2, trunkFiles: 30_000, trunkDays: 50 },
    ...{ indexFiles: 20_000, idleSeconds: 3, maxLookups: 100_000 },
    real: { ...SMALL_REAL, files: 20_000, sampleShare: 0.25, warmUp: 1, counted: 1 },
  },
  {
    ...{ cacheFiles: 2_000, warmUp: 1, counted: 1, trunkFiles: 12_000, trunkDays: 10 },
    ...{ indexFiles: 1_000, idleSeconds: 0.5, maxLookups: 500 },
    real: { ...SMALL_REAL, files: 200, sampleShare: 0.5 },
  },
);

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

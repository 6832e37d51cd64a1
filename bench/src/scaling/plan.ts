import { plans } from '../harness/benchmark.js';

/** How much is simulated and measured. */

const MIB = 2 ** 20;

const FULL = {
  /** The population that the cache is driven with; the other one has a tenth. */
  cacheFiles: 200_000,
  /** Requests for each file: to warm up, and counted. */
  ...{ warmUp: 5, counted: 3 },
  /** Most files of a simulated gateway, and most simulated days. */
  ...{ trunkFiles: 100_000, trunkDays: 120 },
  /** Files whose rows are written to a FileMap and a map. */
  indexFiles: 200_000,
  ...{ idleSeconds: 20, maxLookups: 1_000_000 },
};
export type Plan = typeof FULL;

export const PLANS = plans(
  FULL,
  {
    ...{ cacheFiles: 20_000, warmUp: 3, counted: 2, trunkFiles: 6_000, trunkDays: 1 },
    ...{ indexFiles: 20_000, idleSeconds: 3, maxLookups: 100_000 },
  },
  {
    ...{ cacheFiles: 2_000, warmUp: 1, counted: 1, trunkFiles: 6_000, trunkDays: 0.02 },
    ...{ indexFiles: 1_000, idleSeconds: 0.5, maxLookups: 500 },
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
  trunkSize: 64 * MIB,
  mergeMaxAge: 60_000,
  idMaxAge: 7 * 86_400_000,
} as const;

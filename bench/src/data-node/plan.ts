/** How much is measured: in full, and quickly. */

export interface Plan {
  readonly runs: number;
  /** Look-ups of one run, for each variant. */
  readonly lookUps: number;
}

export const FULL: Plan = {
  runs: 5,
  lookUps: 2_000_000,
};

export const QUICK: Plan = {
  runs: 3,
  lookUps: 300_000,
};

export const SEED = 9;

/** How much is replayed: in full, and quickly. */

export interface Plan {
  /** Every run has seeds of its own. */
  readonly runs: number;
  /** Repetitions of the metadata trace in a run; the runs of the full plan make the paper's 1000. */
  readonly repetitions: number;
  /** Barriers per number of clients in a run. */
  readonly barriers: number;
  /** Runs of the throughput, and how long each is. */
  readonly throughputRuns: number;
  readonly throughputSeconds: number;
  /** Of a new server, before anything counts: its code is compiled. */
  readonly warmUpSeconds: number;
  /** A turn of a number of clients, and what goes before it: the method follows the load. */
  readonly turnSeconds: number;
  readonly settleSeconds: number;
  /** Runs with one to three servers, processes of their own. */
  readonly severalRuns: number;
  /** Until files have moved: a target is lent for an interval, and takes what it has room for. */
  readonly severalWarmUpSeconds: number;
  /** Runs of the cost of a migration, and files for each mean. */
  readonly costRuns: number;
  readonly costFiles: number;
  /** Moves that are made under load. */
  readonly moves: number;
}

export const FULL: Plan = {
  runs: 5,
  repetitions: 200,
  barriers: 100,
  throughputRuns: 5,
  throughputSeconds: 3,
  warmUpSeconds: 4,
  turnSeconds: 1.5,
  settleSeconds: 1,
  severalRuns: 5,
  severalWarmUpSeconds: 12,
  costRuns: 5,
  costFiles: 10,
  moves: 10_000,
};
export const QUICK: Plan = {
  runs: 3,
  repetitions: 40,
  barriers: 30,
  throughputRuns: 3,
  throughputSeconds: 1,
  warmUpSeconds: 3,
  turnSeconds: 1,
  settleSeconds: 0.5,
  severalRuns: 3,
  severalWarmUpSeconds: 9,
  costRuns: 3,
  costFiles: 6,
  moves: 1000,
};

import type { Scale } from '../harness/benchmark.js';

/** How much is measured. */

export interface Plan {
  /** Every run has seeds of its own. */
  readonly runs: number;
  /** Repetitions of the metadata trace in a run; the runs of the full plan make the paper's 1000. */
  readonly repetitions: number;
  /** Barriers per number of clients in a run. */
  readonly barriers: number;
  /** Of several servers, in simulated time. */
  readonly simulatedMs: number;
  /** Runs of the throughput, and how long each is. */
  readonly throughputRuns: number;
  readonly throughputSeconds: number;
  /** Of a new server, before anything counts: its code is compiled. */
  readonly warmUpSeconds: number;
  /** A turn of a number of clients, and what goes before it: the method follows the load. */
  readonly turnSeconds: number;
  readonly settleSeconds: number;
  /** Runs with several servers, processes of their own; how many at the most, and their readers. */
  readonly severalRuns: number;
  readonly severalServers: number;
  readonly severalClients: number;
  /** Until files have moved: a target takes load from one server in an interval, as far as it has room. */
  readonly severalWarmUpSeconds: number;
  /** Runs of the cost of a migration, and files for each mean. */
  readonly costRuns: number;
  readonly costFiles: number;
  /** Moves that are made under load. */
  readonly moves: number;
}

export const PLANS: Readonly<Record<Scale, Plan>> = {
  full: {
    runs: 5,
    repetitions: 200,
    barriers: 100,
    simulatedMs: 40_000,
    throughputRuns: 5,
    throughputSeconds: 3,
    warmUpSeconds: 4,
    turnSeconds: 1.5,
    settleSeconds: 1,
    severalRuns: 5,
    severalServers: 3,
    severalClients: 16,
    severalWarmUpSeconds: 12,
    costRuns: 5,
    costFiles: 10,
    moves: 10_000,
  },
  quick: {
    runs: 3,
    repetitions: 40,
    barriers: 30,
    simulatedMs: 40_000,
    throughputRuns: 3,
    throughputSeconds: 1,
    warmUpSeconds: 3,
    turnSeconds: 1,
    settleSeconds: 0.5,
    severalRuns: 3,
    severalServers: 3,
    severalClients: 16,
    severalWarmUpSeconds: 9,
    costRuns: 3,
    costFiles: 6,
    moves: 1000,
  },
  smoke: {
    runs: 1,
    repetitions: 3,
    barriers: 3,
    simulatedMs: 2_000,
    throughputRuns: 1,
    throughputSeconds: 0.2,
    warmUpSeconds: 0.2,
    turnSeconds: 0.1,
    settleSeconds: 0.05,
    severalRuns: 1,
    severalServers: 3,
    severalClients: 2,
    severalWarmUpSeconds: 0.2,
    costRuns: 1,
    costFiles: 1,
    moves: 30,
  },
};

import type { Scale } from '../harness/benchmark.js';

/** How much is measured. */

export interface Plan {
  /** Of the forecasts, with seeds of their own. */
  readonly runs: number;
  /** Repetitions of the metadata trace in a run; the runs of the full plan make the paper's 1000. */
  readonly repetitions: number;
  /** Barriers per number of clients in a run. */
  readonly barriers: number;
  /** Of what is measured in processes. */
  readonly processRuns: number;
  /** Of a new server, before anything counts: its code is compiled. */
  readonly warmUpSeconds: number;
  /** A turn of a number of clients, and what goes before it: the method follows the load. */
  readonly turnSeconds: number;
  readonly settleSeconds: number;
  /** Several servers: readers, a measurement, and what goes before it, in which files move. */
  readonly severalClients: number;
  readonly severalSeconds: number;
  readonly severalWarmUpSeconds: number;
  /** Files for each mean of the cost of a migration. */
  readonly costFiles: number;
  /** Moves that are made under load. */
  readonly moves: number;
}

export const PLANS: Readonly<Record<Scale, Plan>> = {
  full: {
    ...{ runs: 5, repetitions: 200, barriers: 100, processRuns: 5, warmUpSeconds: 4 },
    ...{ turnSeconds: 1.5, settleSeconds: 1, severalClients: 16, severalSeconds: 3 },
    ...{ severalWarmUpSeconds: 12, costFiles: 10, moves: 10_000 },
  },
  quick: {
    ...{ runs: 3, repetitions: 40, barriers: 30, processRuns: 1, warmUpSeconds: 2 },
    ...{ turnSeconds: 0.6, settleSeconds: 0.4, severalClients: 16, severalSeconds: 1 },
    ...{ severalWarmUpSeconds: 8, costFiles: 4, moves: 500 },
  },
  smoke: {
    ...{ runs: 1, repetitions: 3, barriers: 3, processRuns: 1, warmUpSeconds: 0.2 },
    ...{ turnSeconds: 0.1, settleSeconds: 0.05, severalClients: 2, severalSeconds: 0.2 },
    ...{ severalWarmUpSeconds: 0.2, costFiles: 1, moves: 30 },
  },
};

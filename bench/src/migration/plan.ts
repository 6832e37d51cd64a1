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
  /** Queues of our own scheduler: recordings, how long each of a load's, barriers per number of clients. */
  readonly recordings: number;
  readonly recordedSeconds: number;
  readonly recordedBarriers: number;
  /** A turn of a number of clients, and what goes before all of them: files move meanwhile. */
  readonly turnSeconds: number;
  readonly warmUpSeconds: number;
  /** Files for each mean of the cost of a migration. */
  readonly costFiles: number;
}

export const PLANS: Readonly<Record<Scale, Plan>> = {
  full: {
    ...{ runs: 5, repetitions: 200, barriers: 100, processRuns: 5 },
    ...{ recordings: 3, recordedSeconds: 40, recordedBarriers: 4 },
    ...{ turnSeconds: 3, warmUpSeconds: 12, costFiles: 10 },
  },
  quick: {
    ...{ runs: 3, repetitions: 40, barriers: 30, processRuns: 1 },
    ...{ recordings: 1, recordedSeconds: 20, recordedBarriers: 2 },
    ...{ turnSeconds: 2, warmUpSeconds: 12, costFiles: 4 },
  },
  smoke: {
    ...{ runs: 1, repetitions: 3, barriers: 3, processRuns: 1 },
    ...{ recordings: 1, recordedSeconds: 1, recordedBarriers: 1 },
    ...{ turnSeconds: 0.2, warmUpSeconds: 0.2, costFiles: 1 },
  },
};

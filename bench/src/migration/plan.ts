import { plans } from '../harness/benchmark.js';

/** How much is measured. */

const FULL = {
  /** Of the forecasts, with seeds of their own. */
  runs: 5,
  /** Repetitions of the metadata trace in a run; the runs of the full plan make the paper's 1000. */
  repetitions: 200,
  /** Barriers per number of clients in a run. */
  barriers: 100,
  /** Of what is measured in processes. */
  processRuns: 5,
  /** Queues of our own scheduler, in virtual time: how long, barriers per number of clients. */
  ...{ queueRuns: 3, queueSeconds: 600, queueBarriers: 10 },
  /** A turn of a number of clients, and what goes before all of them: files move meanwhile. */
  ...{ turnSeconds: 3, warmUpSeconds: 12, clients: [1, 2, 4, 8, 16] },
  /** Files for each mean of the cost of a migration. */
  costFiles: 10,
};
export type Plan = typeof FULL;

export const PLANS = plans(
  FULL,
  {
    ...{ runs: 2, repetitions: 20, barriers: 20, processRuns: 1, costFiles: 2 },
    ...{ queueRuns: 1, queueSeconds: 120, queueBarriers: 3 },
    ...{ turnSeconds: 1.5, warmUpSeconds: 9, clients: [1, 4, 16] },
  },
  {
    ...{ runs: 1, repetitions: 3, barriers: 3, processRuns: 1, costFiles: 1 },
    ...{ queueRuns: 1, queueSeconds: 12, queueBarriers: 1 },
    ...{ turnSeconds: 0.2, warmUpSeconds: 0.2, clients: [1, 16] },
  },
);

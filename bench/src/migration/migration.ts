import type { Benchmark } from '../harness/benchmark.js';
import { SEEK_MS } from '../harness/hard-disk.js';
import { FORECAST_GOALS, measureForecasts } from './forecasting.js';
import { COST_GOALS, measureMovingCost } from './moving-cost.js';
import { PLANS } from './plan.js';
import { FILES, METADATA_LOOPS, measureTradeOff, tradeOffGoals } from './trade-off.js';

/** The adaptive trade-off: how well load is forecast, and what the storage makes of it. */
export const migration: Benchmark = {
  durability: 'forecasts: simulated time; storage: sync',
  introduce: ({ scale }) =>
    [
      `Forecasts: ${PLANS[scale].runs} runs with seeds of their own, in simulated time: the same on any machine. MB are 10^6 bytes.`,
      'Metadata: 5000 entries of 1 KB 1 ms apart, 10,000 entries 0.1 ms apart, repeated; B_logic 12 MB/s, intervals of 1 s, entries committed together (held back up to 2 s).',
      'Small files: 1, 2, 4, 8 and 16 clients that write and read back 16 files of 256 KiB between barriers 8 s (± 25 %) apart; B_logic 100 MB/s, intervals of 1 s, nothing held back.',
      'Our queues: the same two loads, at the rate of a modelled disk, sent to a storage in virtual time; intervals of 1 s.',
      `Servers: in virtual time, each on the model of a disk (${SEEK_MS} ms for every request that does not follow the last one, every row that is read and every sync; 100 MB/s; one request at a time), no cache. ${METADATA_LOOPS} loops set metadata; small-file clients read ${FILES} files of 16 KiB by Zipf's law (exponent 0.8) and store one for 20 reads.`,
    ].join('\n'),
  parts: (scale) => {
    const plan = PLANS[scale];
    return {
      forecasts: { goals: FORECAST_GOALS, run: (context) => measureForecasts(context, plan) },
      'trade-off': { goals: tradeOffGoals(plan), run: (context) => measureTradeOff(context, plan) },
      cost: { goals: COST_GOALS, run: (context) => measureMovingCost(context, plan) },
    };
  },
};

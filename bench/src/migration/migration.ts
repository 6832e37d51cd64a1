import { type Benchmark, remarkOn } from '../harness/benchmark.js';
import { FORECAST_GOALS, measureForecasts } from './forecasting.js';
import { MOVING_GOALS, measureMoving } from './moving.js';
import { COST_GOALS, measureMovingCost } from './moving-cost.js';
import { PLANS } from './plan.js';
import { measureSeveral, SLOWED_GOALS } from './several.js';
import { measureTradeOff, TRADE_OFF_GOALS } from './trade-off.js';

/** The adaptive trade-off: how well load is forecast, and what the storage makes of it. */
export const migration: Benchmark = {
  durability: 'forecasts: simulated time; storage: sync',
  introduce: ({ scale }) =>
    [
      `Forecasts: ${PLANS[scale].runs} runs${remarkOn(scale)} with seeds of their own, in simulated time: the same on any machine. MB are 10^6 bytes.`,
      'Metadata: 5000 entries of 1 KB 1 ms apart, 10,000 entries 0.1 ms apart, repeated; B_logic 12 MB/s, intervals of 1 s, entries committed together (held back up to 2 s).',
      'Small files: 1, 2, 4, 8 and 16 clients that write and read back 16 files of 256 KiB between barriers 8 s (± 25 %) apart; B_logic 100 MB/s, intervals of 1 s, nothing held back.',
      'Storage: tracker, storages, the metadata loops and the small-file clients are a process each, no cache. Four loops set metadata of 64 files; every small-file client stores 16 KiB and reads it back. Moves under load: the clients are this process.',
    ].join('\n'),
  parts: (scale) => {
    const plan = PLANS[scale];
    return {
      forecasts: { goals: FORECAST_GOALS, run: (context) => measureForecasts(context, plan) },
      'trade-off': { goals: TRADE_OFF_GOALS, run: (context) => measureTradeOff(context, plan) },
      several: { goals: [], run: (context) => measureSeveral(context, plan, 'usual') },
      'several-slowed': {
        goals: SLOWED_GOALS,
        run: (context) => measureSeveral(context, plan, 'slowed'),
      },
      moving: { goals: MOVING_GOALS, run: (context) => measureMoving(context, plan) },
      cost: { goals: COST_GOALS, run: (context) => measureMovingCost(context, plan) },
    };
  },
};

import { type Benchmark, type BenchmarkContext, remarkOn } from '../harness/benchmark.js';
import { measureForecasts } from './forecasting.js';
import {
  addShares,
  COST_GOALS,
  FORECAST_GOALS,
  MOVING_GOALS,
  SLOWED_GOALS,
  TRADE_OFF_GOALS,
} from './goals.js';
import { measureMoving } from './moving.js';
import { measureMovingCost } from './moving-cost.js';
import {
  showForecasts,
  showMoving,
  showMovingCost,
  showSeveralServers,
  showTradeOff,
} from './output.js';
import { PLANS } from './plan.js';
import { measureRealServers, showRealServers } from './real-servers.js';
import { measureSeveralServers } from './several-servers.js';
import { measureTradeOff } from './trade-off.js';

/** The adaptive trade-off: how well load is forecast, and what the storage makes of it. */
export const migration: Benchmark = {
  durability: 'forecasts: simulated time; storage: sync',
  introduce,
  parts: (scale) => {
    const plan = PLANS[scale];
    return {
      forecasts: {
        goals: FORECAST_GOALS,
        run: async (context) => {
          await measureForecasts(context, plan);
          showForecasts(context);
        },
      },
      'several-simulated': {
        goals: [],
        run: async (context) => {
          measureSeveralServers(context, plan);
          showSeveralServers(context);
        },
      },
      'trade-off': {
        goals: TRADE_OFF_GOALS,
        run: async (context) => {
          await measureTradeOff(context, plan);
          addShares(context.figures);
          showTradeOff(context);
        },
      },
      'several-processes': {
        goals: [],
        run: async (context) => {
          await measureRealServers(context, plan, 'usual');
          showRealServers(context, plan, 'usual');
        },
      },
      'several-slowed': {
        goals: SLOWED_GOALS,
        run: async (context) => {
          await measureRealServers(context, plan, 'slowed');
          showRealServers(context, plan, 'slowed');
        },
      },
      moving: {
        goals: MOVING_GOALS,
        run: async (context) => {
          await measureMoving(context, plan);
          showMoving(context);
        },
      },
      cost: {
        goals: COST_GOALS,
        run: async (context) => {
          await measureMovingCost(context, plan);
          showMovingCost(context);
        },
      },
    };
  },
};

function introduce({ scale }: BenchmarkContext): string {
  const plan = PLANS[scale];
  return [
    `Forecasts: ${plan.runs} runs${remarkOn(scale)} with seeds of their own, in simulated time: the same on any machine. MB are 10^6 bytes.`,
    'Metadata: 5000 entries of 1 KB 1 ms apart, 10,000 entries 0.1 ms apart, repeated; B_logic 12 MB/s, intervals of 1 s, entries committed together (held back up to 2 s).',
    'Small files: 1, 2, 4, 8 and 16 clients that write and read back 16 files of 256 KiB between barriers 8 s (± 25 %) apart; B_logic 100 MB/s, intervals of 1 s, nothing held back.',
    'Storage: tracker, storage, the metadata loops and the small-file clients are a process each, no cache. Four loops set metadata of 64 files; every small-file client stores 16 KiB and reads it back. Moves under load: the clients are this process.',
  ].join('\n');
}

import type { Benchmark, BenchmarkContext } from '../harness/benchmark.js';
import { measureForecasts } from './forecasting.js';
import { addCostGoals, addForecastGoals, addMovingGoals, addTradeOffGoals } from './goals.js';
import { measureMoving } from './moving.js';
import { measureMovingCost } from './moving-cost.js';
import {
  showForecasts,
  showMoving,
  showMovingCost,
  showSeveralServers,
  showTradeOff,
} from './output.js';
import { FULL, type Plan, QUICK } from './plan.js';
import { measureRealServers, showRealServers } from './real-servers.js';
import { measureSeveralServers } from './several-servers.js';
import { measureTradeOff } from './trade-off.js';

type Part = (context: BenchmarkContext, plan: Plan) => Promise<void>;

const PARTS: Readonly<Record<string, Part>> = {
  forecasts: async (context, plan) => {
    await measureForecasts(context, plan);
    showForecasts(context);
    addForecastGoals(context.figures);
  },
  'several-simulated': async (context) => {
    measureSeveralServers(context);
    showSeveralServers(context);
  },
  'trade-off': async (context, plan) => {
    await measureTradeOff(context, plan);
    showTradeOff(context);
    addTradeOffGoals(context.figures);
  },
  'several-processes': async (context, plan) => {
    await measureRealServers(context, plan, 'machine');
    showRealServers(context, 'machine');
  },
  'several-slowed': async (context, plan) => {
    await measureRealServers(context, plan, 'slowed');
    showRealServers(context, 'slowed');
  },
  moving: async (context, plan) => {
    await measureMoving(context, plan);
    showMoving(context);
    addMovingGoals(context.figures);
  },
  cost: async (context, plan) => {
    await measureMovingCost(context, plan);
    showMovingCost(context);
    addCostGoals(context.figures);
  },
};

/** The adaptive trade-off: how well load is forecast, and what the storage makes of it. */
export const migration: Benchmark = {
  durability: 'forecasts: simulated time; storage: sync',
  parts: Object.keys(PARTS),
  async run(context) {
    const plan = context.quick ? QUICK : FULL;
    introduce(context, plan);
    for (const [name, part] of Object.entries(PARTS)) {
      if (context.runs(name)) await part(context, plan);
    }
  },
};

function introduce({ print, quick }: BenchmarkContext, plan: Plan): void {
  print(
    [
      `Forecasts: ${plan.runs} runs${quick ? ' (quick: shorter traces)' : ''} with seeds of their own, in simulated time: the same on any machine. MB are 10^6 bytes.`,
      'Metadata: 5000 entries of 1 KB 1 ms apart, 10,000 entries 0.1 ms apart, repeated; B_logic 12 MB/s, intervals of 1 s, entries committed together (held back up to 2 s).',
      'Small files: 1, 2, 4, 8 and 16 clients that write and read back 16 files of 256 KiB between barriers 8 s (± 25 %) apart; B_logic 100 MB/s, intervals of 1 s, nothing held back.',
      'Storage: tracker, storage, the metadata loops and the small-file clients are a process each, no cache. Four loops set metadata of 64 files; every small-file client stores 16 KiB and reads it back. Moves under load: the clients are this process.',
    ].join('\n'),
  );
}

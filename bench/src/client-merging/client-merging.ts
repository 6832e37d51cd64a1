import { type Benchmark, type BenchmarkContext, remarkOn } from '../harness/benchmark.js';
import { measureFetching } from './fetching.js';
import { FETCH_GOALS, WRITE_GOALS } from './goals.js';
import { showFetching, showWriting } from './output.js';
import { comparePackings, PACKING_GOALS } from './packing-comparison.js';
import { compareKinds, KINDS_GOALS } from './packing-kinds.js';
import { PLANS, type Plan } from './plan.js';
import { WebServer } from './web-server.js';
import type { LoadCost } from './web-server-process.js';
import { measureWriting } from './writing.js';

/**
 * Tables 1 and 2 of the client merging paper: storing and fetching small files with
 * and without merging them on the web server, over the concurrency; and how well
 * annealing fills a trunk.
 */
export const clientMerging: Benchmark = {
  durability: 'sync',
  introduce,
  parts: (scale) => {
    const plan = PLANS[scale];
    let cost: Promise<LoadCost> | undefined;
    const loadCost = (context: BenchmarkContext) => (cost ??= measureLoadCost(context, plan));
    return {
      packing: {
        goals: [...PACKING_GOALS, ...KINDS_GOALS],
        run: async (context) => {
          comparePackings(context, plan);
          compareKinds(context, plan.packings);
        },
      },
      upload: {
        goals: WRITE_GOALS,
        run: async (context) => {
          await measureWriting(context, plan, await loadCost(context));
          await showWriting(context);
        },
      },
      fetch: {
        goals: FETCH_GOALS,
        run: async (context) => {
          await measureFetching(context, plan, await loadCost(context));
          await showFetching(context);
        },
      },
    };
  },
};

function introduce({ print, trackers, scale }: BenchmarkContext): void {
  const plan = PLANS[scale];
  print(
    [
      `${plan.runs} runs${remarkOn(scale)}, variants in turns, every one in processes and directories of its own. Files of 2 to 100 KB, log-uniform, the same ones in the same order for all; MB are 10^6 bytes.`,
      `The web server is one process, tracker and storage are another one, both on this machine. Durability is \`sync\` on both sides: an upload is on disk when it is acknowledged, in the container or in the storage.`,
      `No merging: one FastDFS upload per file over the client's pool (at most 16 connections to a server, its default), measured for ${plan.directSeconds} s. Client merging: the SDK with its defaults stores ${(plan.writeBytes / 1e6).toFixed(0)} MB; *acknowledged* ends with the last acknowledgement, while trunks are packed and sent beside; *stored* ends when all is merged and confirmed.`,
      'The load is loops inside the web server process, since an application calls the SDK in-process; what they cost was measured against calls that do nothing, and stands among the figures.',
    ].join('\n'),
  );
  print(
    trackers
      ? `FastDFS's own merging: direct uploads to the cluster of ${trackers.join(', ')}, taken to be one that merges itself. The other columns use a tracker and a storage of Stevedore's on this machine.`
      : "FastDFS's own merging is not measured: `--trackers HOST:PORT` names a cluster that does it.",
  );
}

async function measureLoadCost(context: BenchmarkContext, plan: Plan): Promise<LoadCost> {
  context.progress('what the load itself costs');
  await using webServer = new WebServer();
  await webServer.prepare(plan.fetchBytes);
  const cost = await webServer.call('loadCost', plan.costOperations);
  context.figures.add('load.upload', 'µs of CPU', cost.cpuSecondsPerUpload * 1e6);
  context.figures.add('load.fetch', 'µs of CPU', cost.cpuSecondsPerFetch * 1e6);
  return cost;
}

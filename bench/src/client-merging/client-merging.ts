import { type Benchmark, type BenchmarkContext, remarkOn } from '../harness/benchmark.js';
import { measureFetching } from './fetching.js';
import { fetchGoals, writeGoals } from './goals.js';
import { showFetching, showWriting } from './output.js';
import { comparePackings, PACKING_GOALS } from './packing-comparison.js';
import { compareKinds, KINDS_GOALS } from './packing-kinds.js';
import { PLANS, type Plan, SMALL, trackersOf } from './plan.js';
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
  parts: (scale, servers) => {
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
      ...Object.fromEntries(
        plan.writeSeries.map((series) => [
          `upload-${series.id}`,
          {
            goals: writeGoals(series, servers),
            run: async (context: BenchmarkContext) => {
              await measureWriting(context, series, plan, await loadCost(context));
              await showWriting(context, series);
            },
          },
        ]),
      ),
      fetch: {
        goals: fetchGoals(servers),
        run: async (context) => {
          const isCold = await measureFetching(context, plan, await loadCost(context));
          await showFetching(context, isCold);
        },
      },
    };
  },
};

function introduce({ servers, scale }: BenchmarkContext): string {
  const first = [
    `Runs${remarkOn(scale)} with variants in turns, every one in processes and directories of its own. The same files in the same order for all, their sizes log-uniform; up to 100 MB, ten times the size is ten times as rare. MB are 10^6 bytes.`,
    `The web server is one process, our tracker and storages are another one, both on this machine. Durability is \`sync\` on our sides: an upload is on disk when it is acknowledged, in the container or in the storage. A FastDFS that is named answers from its page cache: version 6.16 reads fsync_after_written_bytes, but never syncs a file. Its client is ours.`,
    'No merging: one FastDFS upload per file. Client merging: the SDK with its defaults; *acknowledged* ends with the last acknowledgement, while trunks are packed and sent beside; *stored* ends when all is merged and confirmed. All have as many connections to a server as uploads at a time; fetches 200.',
    'The load is loops inside the web server process, since an application calls the SDK in-process; what they cost was measured against calls that do nothing, and stands among the figures.',
  ].join('\n');
  const [plain, own] = [trackersOf('fastdfs', servers), trackersOf('fastdfs-trunk', servers)];
  const second = [
    plain
      ? `FastDFS: ${plain.join(', ')}.`
      : 'FastDFS itself is not measured: `--server fastdfs=HOST:PORT` names a cluster.',
    own
      ? `FastDFS's own merging: ${own.join(', ')}.`
      : "FastDFS's own merging is not measured: `--server fastdfs-trunk=HOST:PORT` names a cluster with use_trunk_file.",
  ].join(' ');
  return `${first}\n${second}`;
}

async function measureLoadCost(context: BenchmarkContext, plan: Plan): Promise<LoadCost> {
  context.progress('what the load itself costs');
  await using webServer = new WebServer();
  await webServer.prepare(SMALL, plan.fetchBytes);
  const cost = await webServer.call('loadCost', plan.costOperations);
  context.figures.add('load.upload', 'µs of CPU', cost.cpuSecondsPerUpload * 1e6);
  context.figures.add('load.fetch', 'µs of CPU', cost.cpuSecondsPerFetch * 1e6);
  return cost;
}

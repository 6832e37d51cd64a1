import type { Benchmark, BenchmarkContext } from '../harness/benchmark.js';
import { start } from '../harness/processes.js';
import { trackersOf } from '../servers/kinds.js';
import { fetchGoals, measureFetching } from './fetching.js';
import { packing } from './packing.js';
import { type LoadCost, PLANS, type Plan, SEED, SMALL, seriesOf, WIRE_NAMES } from './plan.js';
import { measureWriting, writeGoals } from './writing.js';

/**
 * Tables 1 and 2 of the client merging paper: storing and fetching small files with
 * and without merging them on the web server, over the concurrency; and how well
 * annealing fills a trunk.
 */
export const clientMerging: Benchmark = {
  durability: 'sync',
  introduce({ servers }) {
    const clusters = (['fastdfs', 'fastdfs-trunk'] as const).map((where) => {
      const name = where === 'fastdfs' ? 'FastDFS itself' : "FastDFS's own merging";
      const trackers = trackersOf(where, servers);
      return trackers
        ? `${name}: ${trackers.join(', ')}.`
        : `${name} is not measured: \`--server ${where}=HOST:PORT\` names a cluster.`;
    });
    return [
      `Runs with variants in turns, every one in processes and directories of its own. The same files in the same order for all, their sizes log-uniform; up to 100 MB, ten times the size is ten times as rare. MB are 10^6 bytes.`,
      'The web server is one process, our tracker and storages are another one, both on this machine. Durability is `sync` on our sides: an upload is on disk when it is acknowledged, in the container or in the storage. A FastDFS that is named answers from its page cache: version 6.16 reads fsync_after_written_bytes, but never syncs a file. Its client is ours.',
      'No merging: one FastDFS upload per file. Client merging: the SDK with its defaults; *acknowledged* ends with the last acknowledgement, while trunks are packed and sent beside; *stored* ends when all is merged and confirmed. All have as many connections to a server as uploads at a time; fetches 200.',
      'Over a wire, a relay between web server and storages delays and limits what passes, each way; the relay takes CPU of the same machine.',
      'The load is loops inside the web server process, since an application calls the SDK in-process; what they cost was measured against calls that do nothing, and stands among the figures.',
      clusters.join(' '),
    ].join('\n');
  },
  parts: (scale, servers) => {
    const plan = PLANS[scale];
    let cost: Promise<LoadCost> | undefined;
    const loadCost = (context: BenchmarkContext) => {
      cost ??= measureLoadCost(context, plan);
      return cost;
    };
    const uploads = seriesOf(plan).map((series) => {
      const run = async (context: BenchmarkContext) =>
        measureWriting(context, series, plan, await loadCost(context));
      return [`upload-${series.id}`, { goals: writeGoals(series, servers), run }] as const;
    });
    return {
      packing: packing(plan.packings),
      ...Object.fromEntries(uploads),
      ...Object.fromEntries(
        ([undefined, ...WIRE_NAMES] as const).map((wire) => [
          wire === undefined ? 'fetch' : `fetch-${wire}`,
          {
            goals: wire === undefined ? fetchGoals(servers) : [],
            run: async (context: BenchmarkContext) =>
              measureFetching(context, plan, await loadCost(context), wire),
          },
        ]),
      ),
    };
  },
};

const COST_CONCURRENCY = 20;

async function measureLoadCost(context: BenchmarkContext, plan: Plan): Promise<LoadCost> {
  context.progress('what the load itself costs');
  const { bytes, costOperations: operations } = plan;
  await using webServer = start('client/storing');
  await webServer.call('prepare', { ...SMALL, seed: SEED, totalBytes: bytes });
  await webServer.call('open', { client: 'nothing', trackers: [], connections: 1 });
  const load = { operations, concurrency: COST_CONCURRENCY };
  const perUpload = (await webServer.call('upload', load)).cpuSeconds / operations;
  const perFetch = (await webServer.call('fetch', load, 0)).cpuSeconds / operations;
  context.figures.add('load.upload', 'µs of CPU', perUpload * 1e6);
  context.figures.add('load.fetch', 'µs of CPU', perFetch * 1e6);
  return { perUpload, perFetch };
}

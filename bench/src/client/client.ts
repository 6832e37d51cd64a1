import { type Benchmark, type BenchmarkContext, plans } from '../harness/benchmark.js';
import { withCpuOf } from '../harness/child.js';
import { Closing } from '../harness/closing.js';
import { atLeast, leastOf } from '../harness/goals.js';
import { inTurn } from '../harness/load.js';
import { middle, percent } from '../harness/markdown.js';
import { type Running, start } from '../harness/processes.js';
import { trackersOf } from '../servers/kinds.js';
import type { Transfer } from './storing-process.js';
import type { TargetOptions } from './targets.js';

/**
 * Our FastDFS client against npm `fdfs`: small uploads and downloads over 1, 16 and
 * 64 connections.
 */

const FULL = {
  ...{ runs: 5, warmUpSeconds: 0.35 },
  /** Length of one measurement. */
  ...{ uploadSeconds: 1, downloadSeconds: 0.7 },
};
const PLANS = plans(
  FULL,
  {
    ...{ runs: 2, uploadSeconds: 0.2, downloadSeconds: 0.15, warmUpSeconds: 0.1 },
  },
  {
    ...{ runs: 1, uploadSeconds: 0.03, downloadSeconds: 0.03, warmUpSeconds: 0.03 },
  },
);
type Plan = typeof FULL;

const SEED = 30;
const FILES_PER_SIZE = 256;
const CONNECTIONS = [1, 16, 64] as const;
/** The goal is about this many connections; the memory is measured with as many. */
const GOAL_CONNECTIONS = 16;
const SIZES = { '1KB': 1_000, '20KB': 20_000 } as const;
type SizeName = keyof typeof SIZES;
const SIZE_NAMES = Object.keys(SIZES) as SizeName[];
const CLIENTS = ['stevedore', 'fdfs'] as const;
type ClientName = (typeof CLIENTS)[number];
const DIRECTIONS = ['upload', 'download'] as const;
type Direction = (typeof DIRECTIONS)[number];
/** unsynced: no sync takes part, so that the clients are compared. storage: ours as it is. */
const SERVER_TITLES = {
  storage: 'Storage as it is, on disk, synced',
  unsynced: 'Storage with durability os, as FastDFS',
  cluster: 'Named cluster',
} as const;
type ServerName = keyof typeof SERVER_TITLES;
const DURABILITY = { storage: 'sync', unsynced: 'os' } as const;

function id(direction: Direction, server: ServerName, size: SizeName, connections: number): string {
  return `${direction}.${server}.${size}.c${connections}`;
}

export const client: Benchmark = {
  durability: 'sync; none where it is named',
  packages: ['fdfs'],
  introduce({ servers, scale }) {
    const trackers = trackersOf('fastdfs', servers);
    const { runs, uploadSeconds, downloadSeconds } = PLANS[scale];
    return [
      `${runs} runs with new processes in each, clients in turns, every measurement ${uploadSeconds} s of uploads and ${downloadSeconds} s of downloads of what was uploaded; every byte that comes back is compared. KB and MB are 10^3 and 10^6 bytes.`,
      'Each client is a process of its own; tracker and storage are another one, the same for both. The load is loops in the client process; what they cost was measured against calls that do nothing.',
      'fdfs has no pool: each of its calls opens a socket to the tracker and one to the storage. So many *connections* are so many calls at a time, and for our client the limit of its pool. Each measurement begins with one call per connection before the clock.',
      'Measured against our storage as it is, which syncs every upload before it answers, and with durability `os`: there the goal is judged.',
      trackers
        ? `And against the cluster of ${trackers.join(', ')}; files put there are deleted again.`
        : 'No other cluster is measured: `--server fastdfs=HOST:PORT` names one.',
    ].join('\n');
  },
  parts: (scale) => ({
    transfers: {
      goals: [
        atLeast(
          `upload.c${GOAL_CONNECTIONS}.vs-fdfs`,
          `uploads at ${GOAL_CONNECTIONS} connections: at least {} x fdfs, against our storage without syncs (the least of the sizes)`,
          3,
          leastOf(
            SIZE_NAMES.map((size) => `${id('upload', 'unsynced', size, GOAL_CONNECTIONS)}.vs-fdfs`),
          ),
        ),
      ],
      run: (context) => measureTransfers(context, PLANS[scale]),
    },
  }),
};

function serversOf({ servers }: BenchmarkContext): readonly ServerName[] {
  const isNamed = trackersOf('fastdfs', servers) !== undefined;
  return isNamed ? ['storage', 'unsynced', 'cluster'] : ['storage', 'unsynced'];
}

/** `nodes`: undefined for a cluster that was named, whose processes are not ours. */
async function startServer(context: BenchmarkContext, name: ServerName, closing: Closing) {
  if (name === 'cluster') {
    return { name, trackers: trackersOf('fastdfs', context.servers) ?? [], nodes: undefined };
  }
  const nodes = closing.use(start('harness/nodes'));
  const directory = context.workspace.fresh('node');
  const trackers = [await nodes.call('group', directory, 1, DURABILITY[name])];
  return { name, trackers, nodes };
}
type Server = Awaited<ReturnType<typeof startServer>>;

type ClientChild = Running<'client/storing'>;

async function openClient(child: ClientChild, size: SizeName, options: TargetOptions) {
  const [minBytes, maxBytes] = [SIZES[size], SIZES[size]];
  const totalBytes = FILES_PER_SIZE * minBytes;
  await child.call('prepare', { seed: SEED, minBytes, maxBytes, totalBytes });
  await child.call('open', options);
}

async function closeClient(child: ClientChild): Promise<void> {
  await child.call('removeAll');
  await child.call('close');
}

/** What a call of each direction costs without a client, in seconds. */
type LoadCosts = Readonly<Record<SizeName, Readonly<Record<Direction, number>>>>;
const COST_SECONDS = 0.2;

async function measureLoadCosts({ figures }: BenchmarkContext): Promise<LoadCosts> {
  await using child = start('client/storing');
  const costs: Partial<Record<SizeName, LoadCosts[SizeName]>> = {};
  for (const size of SIZE_NAMES) {
    const options = { client: 'nothing', trackers: [], connections: GOAL_CONNECTIONS } as const;
    await openClient(child, size, options);
    const load = { maxSeconds: COST_SECONDS, concurrency: GOAL_CONNECTIONS };
    const perCall = ({ cpuSeconds, operations }: Transfer) => cpuSeconds / operations;
    const upload = perCall(await child.call('upload', load));
    const download = perCall(await child.call('fetch', load, 0));
    await closeClient(child);
    costs[size] = { upload, download };
    figures.add(`load.upload.${size}`, 'µs of CPU', upload * 1e6);
    figures.add(`load.download.${size}`, 'µs of CPU', download * 1e6);
  }
  return costs as LoadCosts;
}

async function measureTransfers(context: BenchmarkContext, plan: Plan): Promise<void> {
  const { figures } = context;
  const costs = await measureLoadCosts(context);
  const failures = { stevedore: [] as string[], fdfs: [] as string[] };
  const measure = async (
    name: ClientName,
    child: ClientChild,
    { name: serverName, trackers, nodes }: Server,
    size: SizeName,
    connections: number,
  ) => {
    const one = async (direction: Direction, run: () => Promise<Transfer>) => {
      const [result, serverCpu] = await withCpuOf(nodes, run);
      const { operations, bytes, seconds, cpuSeconds, errors, firstError = '' } = result;
      for (let error = 0; error < errors; error += 1) failures[name].push(firstError);
      figures.addAll(`${id(direction, serverName, size, connections)}.${name}`, {
        operations: [operations / seconds, 'operations/s'],
        MBps: [bytes / 1e6 / seconds, 'MB/s'],
        errors: [errors, 'calls'],
        cpu: [cpuSeconds / seconds, 'cores'],
        'cpu-per-operation': [(cpuSeconds / operations) * 1e6, 'µs'],
        'load-share': [(costs[size][direction] * operations) / cpuSeconds, 'share'],
        'server-cpu': [serverCpu && serverCpu / seconds, 'cores'],
      });
    };
    await openClient(child, size, { client: name, trackers, connections });
    const upload = { concurrency: connections, maxSeconds: plan.uploadSeconds };
    const download = { concurrency: connections, maxSeconds: plan.downloadSeconds };
    try {
      // A pool lives long: that it fills is no part of a measurement. So for both clients.
      await child.call('upload', { concurrency: connections, operations: connections });
      await one('upload', () => child.call('upload', upload));
      await one('download', () => child.call('fetch', download, SEED + connections));
    } finally {
      await closeClient(child);
    }
  };
  await context.runs('transfers', plan.runs, async (run) => {
    await using closing = new Closing();
    const servers: Server[] = [];
    for (const name of serversOf(context)) servers.push(await startServer(context, name, closing));
    const clients = inTurn(run, CLIENTS).map((name) => ({
      name,
      child: closing.use(start('client/storing')),
    }));
    for (const { name, child } of clients) {
      for (const { trackers } of servers) {
        const load = { concurrency: GOAL_CONNECTIONS, maxSeconds: plan.warmUpSeconds };
        const options = { client: name, trackers, connections: GOAL_CONNECTIONS };
        await openClient(child, '1KB', options);
        await child.call('upload', load);
        await child.call('fetch', load, 0);
        await closeClient(child);
      }
    }
    for (const connections of CONNECTIONS) {
      context.progress(`${connections} connections`);
      for (const size of SIZE_NAMES) {
        for (const server of servers) {
          for (const { name, child } of clients) {
            await measure(name, child, server, size, connections);
          }
        }
        addRatios(context, size, connections);
      }
    }
  });
  showTransfers(context);
  showByCluster(context);
  for (const [name, all] of Object.entries(failures)) {
    const [first] = all;
    context.print(`${name}: ${all.length} calls failed${first ? `; the first: ${first}` : '.'}`);
  }
}

/** Of this run: what slows the machine for a while slows both. */
function addRatios(context: BenchmarkContext, size: SizeName, connections: number): void {
  const { figures } = context;
  for (const direction of DIRECTIONS) {
    const of = (server: ServerName) => id(direction, server, size, connections);
    const ours = (server: ServerName) => `${of(server)}.stevedore.operations`;
    for (const server of serversOf(context)) {
      figures.addRatio(`${of(server)}.vs-fdfs`, ours(server), `${of(server)}.fdfs.operations`);
    }
    const isNamed = serversOf(context).includes('cluster');
    const byCluster = `by-cluster.${size}.c${connections}.${direction}`;
    if (isNamed) figures.addRatio(byCluster, ours('unsynced'), ours('cluster'));
  }
}

function showTransfers(context: BenchmarkContext): void {
  const { print, table, chart } = context;
  for (const direction of DIRECTIONS) {
    print(`## ${direction === 'upload' ? 'Uploads' : 'Downloads'}`);
    for (const server of serversOf(context)) {
      print(`${SERVER_TITLES[server]}; a second, median (least–greatest):`);
      table(`${direction}-${server}`, {
        head: 'Size, connections',
        rows: SIZE_NAMES.flatMap((size) =>
          CONNECTIONS.map(
            (each) => [`${size}, ${each}`, id(direction, server, size, each)] as const,
          ),
        ),
        columns: [
          ["Stevedore's client", 'stevedore.operations'],
          ['fdfs', 'fdfs.operations'],
          ['times fdfs', 'vs-fdfs'],
          ['CPU of a call, µs', 'stevedore.cpu-per-operation', middle],
          ["fdfs'", 'fdfs.cpu-per-operation', middle],
          ['of it the load', 'stevedore.load-share', percent],
          ["fdfs'", 'fdfs.load-share', percent],
          ['server, cores', 'stevedore.server-cpu', middle],
          ["with fdfs'", 'fdfs.server-cpu', middle],
        ],
      });
    }
    chart(direction, {
      title: `${direction}s of 1 KB a second`,
      ...{ xTitle: 'connections', yTitle: `${direction}s/s`, labels: CONNECTIONS.map(String) },
      series: serversOf(context).flatMap((server) =>
        CLIENTS.map((name) => ({
          name: `${name}, ${SERVER_TITLES[server].toLowerCase()}`,
          values: CONNECTIONS.map((c) => `${id(direction, server, '1KB', c)}.${name}.operations`),
        })),
      ),
    });
  }
}

/** Both leave it to the system when a file goes to the disk. */
function showByCluster(context: BenchmarkContext): void {
  if (!serversOf(context).includes('cluster')) return;
  context.print('## Our storage, with durability os, by the named cluster, with our client');
  context.table('by-cluster', {
    head: 'Size, connections',
    rows: SIZE_NAMES.flatMap((size) =>
      CONNECTIONS.map((each) => [`${size}, ${each}`, `by-cluster.${size}.c${each}`] as const),
    ),
    columns: [
      ['uploads', 'upload'],
      ['downloads', 'download'],
    ],
  });
}

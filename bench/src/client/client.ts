import { type Benchmark, type BenchmarkContext, remarkOn } from '../harness/benchmark.js';
import type { Child } from '../harness/child.js';
import { atLeast, atMost, leastOf } from '../harness/goals.js';
import { inTurn } from '../harness/load.js';
import { middle, percent } from '../harness/markdown.js';
import { Nodes } from '../harness/nodes.js';
import type { ClientHandlers, TransferResult } from './client-process.js';
import { measureMemory } from './memory.js';
import { measurePieces } from './pieces.js';
import { GOAL_CONNECTIONS, PLANS, type Plan, SEED, SIZES, startClient } from './plan.js';

/**
 * Our FastDFS client against npm `fdfs`: small uploads and downloads over 1, 16 and
 * 64 connections, uploads written as the C client does, and whether the memory stays flat.
 */

const CONNECTIONS = [1, 16, 64] as const;
type SizeName = keyof typeof SIZES;
const SIZE_NAMES = Object.keys(SIZES) as SizeName[];
const CLIENTS = ['stevedore', 'fdfs'] as const;
type ClientName = (typeof CLIENTS)[number];
const DIRECTIONS = ['upload', 'download'] as const;
type Direction = (typeof DIRECTIONS)[number];
/** memory: no disk takes part, so that the clients are compared. storage: ours as it is. */
const SERVER_TITLES = {
  memory: 'Cluster without syncs',
  storage: 'Storage as it is, on disk, synced',
  cluster: 'Named cluster',
} as const;
type ServerName = keyof typeof SERVER_TITLES;
const UPLOAD_TIMES = 3;
const MEMORY_TIMES = 1.1;
const PIECES_TIMES = 1.2;

function id(direction: Direction, server: ServerName, size: SizeName, connections: number): string {
  return `${direction}.${server}.${size}.c${connections}`;
}

export const client: Benchmark = {
  durability: 'sync on disk; none in the cluster without syncs',
  packages: ['fdfs'],
  introduce({ trackers, scale }) {
    const { runs, uploadSeconds, downloadSeconds } = PLANS[scale];
    return [
      `${runs} runs${remarkOn(scale)} with new processes in each, clients in turns, every measurement ${uploadSeconds} s of uploads and ${downloadSeconds} s of downloads of what was uploaded; every byte that comes back is compared. KB and MB are 10^3 and 10^6 bytes.`,
      'Each client is a process of its own; tracker and storage are another one, the same for both. The load is loops in the client process; what they cost was measured against calls that do nothing.',
      'fdfs has no pool: each of its calls opens a socket to the tracker and one to the storage. So many *connections* are so many calls at a time, and for our client the limit of its pool. Each measurement begins with one call per connection before the clock.',
      'Measured against our storage as it is, which syncs every upload before it answers, and against one that syncs nothing: there the goal is judged.',
      trackers
        ? `And against the cluster of ${trackers.join(', ')}; files put there are deleted again.`
        : 'No other cluster is measured: `--trackers HOST:PORT` names one.',
    ].join('\n');
  },
  parts: (scale) => ({
    transfers: {
      goals: [
        atLeast(
          `upload.c${GOAL_CONNECTIONS}.vs-fdfs`,
          `uploads at ${GOAL_CONNECTIONS} connections: at least ${UPLOAD_TIMES} x fdfs, against the cluster without syncs (the least of the sizes)`,
          UPLOAD_TIMES,
          leastOf(
            SIZE_NAMES.map((size) => `${id('upload', 'memory', size, GOAL_CONNECTIONS)}.vs-fdfs`),
          ),
        ),
      ],
      run: (context) => measureTransfers(context, PLANS[scale]),
    },
    pieces: {
      goals: [
        atMost(
          'upload.c1.apart-times-ours',
          `an upload of 20 KB written as the C client does, one at a time: at most ${PIECES_TIMES} x ours`,
          PIECES_TIMES,
        ),
      ],
      run: (context) => measurePieces(context, PLANS[scale]),
    },
    memory: {
      goals: [
        atMost(
          'memory.growth',
          `heap after the last operation: at most ${MEMORY_TIMES} x that after a tenth of them`,
          MEMORY_TIMES,
        ),
      ],
      run: (context) => measureMemory(context, PLANS[scale]),
    },
  }),
};

function serversOf({ trackers }: BenchmarkContext): readonly ServerName[] {
  return trackers ? ['memory', 'storage', 'cluster'] : ['memory', 'storage'];
}

interface Server {
  readonly name: ServerName;
  readonly trackers: readonly string[];
  /** Undefined for a cluster that was named: its processes are not ours. */
  readonly nodes: Nodes | undefined;
}

async function startServer(context: BenchmarkContext, name: ServerName): Promise<Server> {
  if (name === 'cluster') return { name, trackers: context.trackers ?? [], nodes: undefined };
  const nodes = new Nodes();
  try {
    const trackers =
      name === 'memory'
        ? await nodes.call('testCluster')
        : [await nodes.cluster(context.workspace.fresh('node'))];
    return { name, trackers, nodes };
  } catch (error) {
    await nodes[Symbol.asyncDispose]();
    throw error;
  }
}

/** What a call of each direction costs without a client, in seconds. */
type LoadCosts = ReadonlyMap<SizeName, Readonly<Record<Direction, number>>>;
const COST_SECONDS = 0.2;

async function measureTransfers(context: BenchmarkContext, plan: Plan): Promise<void> {
  const costs = await measureLoadCosts(context);
  const failures = new Map<ClientName, { count: number; first: string | undefined }>();
  for (let run = 1; run <= plan.runs; run += 1) {
    const servers: Server[] = [];
    const children = new Map<ClientName, Child<ClientHandlers>>();
    const order = inTurn(run + 1, CLIENTS);
    try {
      for (const name of serversOf(context)) servers.push(await startServer(context, name));
      for (const name of order) children.set(name, await startClient());
      for (const [name, child] of children) {
        for (const { trackers } of servers) {
          const load = { concurrency: GOAL_CONNECTIONS, seconds: plan.warmUpSeconds };
          await child.call('open', { client: name, trackers, connections: GOAL_CONNECTIONS });
          await child.call('upload', { ...load, size: SIZES['1KB'] });
          await child.call('download', { ...load, seed: 0 });
          await child.call('close');
        }
      }
      for (const connections of CONNECTIONS) {
        context.progress(`run ${run} of ${plan.runs}, ${connections} connections`);
        for (const size of SIZE_NAMES) {
          for (const server of servers) {
            for (const [name, child] of children) {
              const point = { name, child, server, size, connections, cost: costs.get(size)! };
              for (const result of await measureOne(context, plan, point)) {
                const { count = 0, first } = failures.get(name) ?? {};
                const { errors, firstError } = result;
                failures.set(name, { count: count + errors, first: first ?? firstError });
              }
            }
          }
          addRatios(context, size, connections);
        }
      }
    } finally {
      for (const child of children.values()) await child[Symbol.asyncDispose]();
      for (const { nodes } of servers) await nodes?.[Symbol.asyncDispose]();
    }
  }
  await showTransfers(context);
  for (const [name, { count, first }] of failures) {
    context.print(`${name}: ${count} calls failed${first ? `; the first: ${first}` : '.'}`);
  }
}

async function measureLoadCosts({ figures }: BenchmarkContext): Promise<LoadCosts> {
  await using child = await startClient();
  const costs = new Map<SizeName, Record<Direction, number>>();
  for (const size of SIZE_NAMES) {
    const options = { trackers: [], connections: GOAL_CONNECTIONS };
    await child.call('open', { client: 'nothing', ...options });
    const load = { seconds: COST_SECONDS, concurrency: GOAL_CONNECTIONS };
    const upload = await child.call('upload', { ...load, size: SIZES[size] });
    const download = await child.call('download', { ...load, seed: 0 });
    await child.call('close');
    const cost = {
      upload: upload.cpuSeconds / upload.operations,
      download: download.cpuSeconds / download.operations,
    };
    for (const direction of DIRECTIONS) {
      figures.add(`load.${direction}.${size}`, 'µs of CPU', cost[direction] * 1e6);
    }
    costs.set(size, cost);
  }
  return costs;
}

interface Point {
  readonly name: ClientName;
  readonly child: Child<ClientHandlers>;
  readonly server: Server;
  readonly size: SizeName;
  readonly connections: number;
  readonly cost: Readonly<Record<Direction, number>>;
}

async function measureOne(
  { figures }: BenchmarkContext,
  plan: Plan,
  { name, child, server, size, connections, cost }: Point,
): Promise<readonly TransferResult[]> {
  const measure = async (direction: Direction, run: () => Promise<TransferResult>) => {
    const before = await server.nodes?.cpuSeconds();
    const result = await run();
    const after = await server.nodes?.cpuSeconds();
    const { operations, bytes, seconds, cpuSeconds, errors } = result;
    const serverCpu = before === undefined || after === undefined ? undefined : after - before;
    figures.addAll(`${id(direction, server.name, size, connections)}.${name}`, {
      operations: [operations / seconds, 'operations/s'],
      MBps: [bytes / 1e6 / seconds, 'MB/s'],
      errors: [errors, 'calls'],
      cpu: [cpuSeconds / seconds, 'cores'],
      'cpu-per-operation': [(cpuSeconds / operations) * 1e6, 'µs'],
      'load-share': [(cost[direction] * operations) / cpuSeconds, 'share'],
      'server-cpu': [serverCpu && serverCpu / seconds, 'cores'],
    });
    return result;
  };
  await child.call('open', { client: name, trackers: server.trackers, connections });
  const load = { concurrency: connections };
  const uploads = await measure('upload', () =>
    child.call('upload', { ...load, size: SIZES[size], seconds: plan.uploadSeconds }),
  );
  const downloads = await measure('download', () =>
    child.call('download', { ...load, seed: SEED + connections, seconds: plan.downloadSeconds }),
  );
  await child.call('close');
  return [uploads, downloads];
}

/** Of this run: what slows the machine for a while slows both. */
function addRatios(context: BenchmarkContext, size: SizeName, connections: number): void {
  const { figures } = context;
  for (const direction of DIRECTIONS) {
    const of = (server: ServerName) => id(direction, server, size, connections);
    const ours = (server: ServerName) => `${of(server)}.stevedore.operations`;
    for (const server of serversOf(context)) {
      const fdfs = `${of(server)}.fdfs.operations`;
      figures.addRatio(`${of(server)}.vs-fdfs`, ours(server), fdfs);
    }
    figures.addRatio(`${of('storage')}.vs-cluster`, ours('storage'), ours('cluster'));
  }
}

async function showTransfers(context: BenchmarkContext): Promise<void> {
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
          ['times the cluster', 'vs-cluster'],
          ['CPU of a call, µs', 'stevedore.cpu-per-operation', middle],
          ["fdfs'", 'fdfs.cpu-per-operation', middle],
          ['of it the load', 'stevedore.load-share', percent],
          ["fdfs'", 'fdfs.load-share', percent],
          ['server, cores', 'stevedore.server-cpu', middle],
          ["with fdfs'", 'fdfs.server-cpu', middle],
        ],
      });
    }
    await chart(direction, {
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

import { FastdfsClient } from '@stevedore/fastdfs';
import {
  type Benchmark,
  type BenchmarkContext,
  remarkOn,
  type Scale,
} from '../harness/benchmark.js';
import { Child } from '../harness/child.js';
import { makeFileSet } from '../harness/file-set.js';
import { atLeast, atMost, leastOf } from '../harness/goals.js';
import { inTurn } from '../harness/load.js';
import { count, middle, percent } from '../harness/markdown.js';
import { NodeConnection, type Writing } from '../harness/node-connection.js';
import { Nodes } from '../harness/nodes.js';
import { median } from '../harness/statistics.js';
import { type ClientHandlers, SEED, type TransferResult } from './client-process.js';

/**
 * Our FastDFS client against npm `fdfs`: small uploads and downloads over 1, 16 and
 * 64 connections, uploads written as the C client does, and whether the memory stays flat.
 */

interface Plan {
  readonly runs: number;
  /** Length of one measurement of uploads, of one of downloads, and of a warm-up of each. */
  readonly uploadSeconds: number;
  readonly downloadSeconds: number;
  readonly warmUpSeconds: number;
  readonly memoryRuns: number;
  /** Uploads, downloads and deletes together. */
  readonly memoryOperations: number;
  /** Uploads one at a time, in each way of writing them. */
  readonly piecesUploads: number;
}

const PLANS: Readonly<Record<Scale, Plan>> = {
  full: {
    ...{ runs: 5, uploadSeconds: 1, downloadSeconds: 0.7, warmUpSeconds: 0.35 },
    ...{ memoryRuns: 3, memoryOperations: 100_000, piecesUploads: 400 },
  },
  quick: {
    ...{ runs: 3, uploadSeconds: 0.2, downloadSeconds: 0.15, warmUpSeconds: 0.1 },
    ...{ memoryRuns: 1, memoryOperations: 10_000, piecesUploads: 200 },
  },
  smoke: {
    ...{ runs: 1, uploadSeconds: 0.03, downloadSeconds: 0.03, warmUpSeconds: 0.03 },
    ...{ memoryRuns: 1, memoryOperations: 600, piecesUploads: 5 },
  },
};

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
/** memory: no disk takes part, so that the clients are compared. storage: ours as it is. */
const SERVER_TITLES = {
  memory: 'Cluster in memory',
  storage: 'Storage as it is, on disk, synced',
  cluster: 'Named cluster',
} as const;
type ServerName = keyof typeof SERVER_TITLES;
const WAY_TITLES = {
  ours: "by Stevedore's client",
  together: 'head and body in one write, by a bare socket',
  apart: "head and body in a write each, Nagle's algorithm on, by a bare socket",
} as const;
type Way = keyof typeof WAY_TITLES;
const WAYS = Object.keys(WAY_TITLES) as Way[];
const MEMORY_PERCENTS = [10, 50, 100] as const;
/** A file is uploaded, downloaded and deleted. */
const OPERATIONS_PER_CYCLE = 3;
const EXTENSION = 'bin';
const UPLOAD_TIMES = 3;
const MEMORY_TIMES = 1.1;
const PIECES_TIMES = 1.2;

function id(direction: Direction, server: ServerName, size: SizeName, connections: number): string {
  return `${direction}.${server}.${size}.c${connections}`;
}

export const client: Benchmark = {
  durability: 'sync on disk; none in the cluster in memory',
  packages: ['fdfs'],
  introduce({ trackers, scale }) {
    const { runs, uploadSeconds, downloadSeconds } = PLANS[scale];
    return [
      `${runs} runs${remarkOn(scale)} with new processes in each, clients in turns, every measurement ${uploadSeconds} s of uploads and ${downloadSeconds} s of downloads of what was uploaded; every byte that comes back is compared. KB and MB are 10^3 and 10^6 bytes.`,
      'Each client is a process of its own; tracker and storage are another one, the same for both. The load is loops in the client process; what they cost was measured against calls that do nothing.',
      'fdfs has no pool: each of its calls opens a socket to the tracker and one to the storage. So many *connections* are so many calls at a time, and for our client the limit of its pool. Each measurement begins with one call per connection before the clock.',
      'Measured against our storage as it is, which syncs every upload before it answers, and against a cluster in memory, where no disk takes part: there the goal is judged.',
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
          `uploads at ${GOAL_CONNECTIONS} connections: at least ${UPLOAD_TIMES} x fdfs, against the cluster in memory (the least of the sizes)`,
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

/** A measured process, with its files made. */
async function startClient(
  sizes: readonly number[] = Object.values(SIZES),
  nodeOptions: readonly string[] = [],
): Promise<Child<ClientHandlers>> {
  const module = new URL('./client-process.js', import.meta.url);
  const child = new Child<ClientHandlers>(module, { nodeOptions });
  await child.call('prepare', sizes);
  return child;
}

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
        ? await nodes.call('memoryCluster')
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

/**
 * What an upload costs a client that writes head and body apart with Nagle's algorithm on,
 * as the C client does: a system that delays the acknowledgement of the head adds 40 ms.
 * Uploads of all ways are made in turns, so that the disk is the same for all.
 */
async function measurePieces(context: BenchmarkContext, plan: Plan): Promise<void> {
  for (let run = 1; run <= plan.runs; run += 1) {
    context.progress(`uploads in pieces, run ${run} of ${plan.runs}`);
    await measurePiecesOnce(context, plan);
  }
  context.print(
    `## Uploads in two pieces\n\n${plan.piecesUploads} uploads of 20 KB in each way, one at a time and in turns, against our storage on disk, synced; milliseconds of the median upload, median of the runs (least–greatest):`,
  );
  context.table('pieces', {
    head: 'Written',
    rows: WAYS.map((way) => [WAY_TITLES[way], `upload.c1.${way}`]),
    columns: [['ms', 'ms']],
  });
}

async function measurePiecesOnce(context: BenchmarkContext, { piecesUploads }: Plan) {
  const { figures, workspace } = context;
  const bytes = SIZES['20KB'];
  const [file] = makeFileSet({ seed: SEED, minBytes: bytes, maxBytes: bytes, totalBytes: bytes });
  const content = file!.bytes;
  await using nodes = new Nodes();
  const tracker = await nodes.cluster(workspace.fresh('node'));
  const client = new FastdfsClient({ trackers: [tracker], maxConnectionsPerAddress: 1 });
  const connections: NodeConnection[] = [];
  const open = async (port: number, writing?: Writing): Promise<NodeConnection> => {
    const connection = await NodeConnection.open(port, writing);
    connections.push(connection);
    return connection;
  };
  try {
    const { port } = await (await open(Number(tracker.split(':').at(-1)))).queryStore();
    const together = await open(port, 'together');
    const apart = await open(port, 'apart');
    const uploads: Readonly<Record<Way, () => PromiseLike<unknown>>> = {
      ours: () => client.upload(content, { extension: EXTENSION }),
      together: () => together.upload([content], content.length, EXTENSION),
      apart: () => apart.upload([content], content.length, EXTENSION),
    };
    const times: Readonly<Record<Way, number[]>> = { ours: [], together: [], apart: [] };
    for (let done = 0; done < piecesUploads; done += 1) {
      for (const way of WAYS) {
        const start = performance.now();
        await uploads[way]();
        times[way].push(performance.now() - start);
      }
    }
    for (const way of WAYS) figures.add(`upload.c1.${way}.ms`, 'ms', median(times[way]));
    figures.addRatio('upload.c1.apart-times-ours', 'upload.c1.apart.ms', 'upload.c1.ours.ms');
  } finally {
    for (const connection of connections) connection.close();
    await client.close();
  }
}

/** Whether our client's memory stays flat: what it holds at 10, 50 and 100 % of many operations. */
async function measureMemory(context: BenchmarkContext, plan: Plan): Promise<void> {
  const { figures, progress, print, table } = context;
  const { memoryOperations, memoryRuns } = plan;
  for (let run = 1; run <= memoryRuns; run += 1) {
    progress(`memory, run ${run} of ${memoryRuns}`);
    await using nodes = new Nodes();
    const trackers = await nodes.call('memoryCluster');
    await using child = await startClient([SIZES['1KB']], ['--expose-gc']);
    await child.call('open', { client: 'stevedore', trackers, connections: GOAL_CONNECTIONS });
    const all = Math.ceil(memoryOperations / OPERATIONS_PER_CYCLE);
    let done = 0;
    for (const percent of MEMORY_PERCENTS) {
      const cycles = Math.ceil((all * percent) / 100) - done;
      await child.call('cycle', { size: SIZES['1KB'], cycles, concurrency: GOAL_CONNECTIONS });
      done += cycles;
      const { heapUsed, rss, external } = await child.call('memory');
      figures.addAll(`memory.p${percent}`, {
        heap: [heapUsed / 1e6, 'MB'],
        rss: [rss / 1e6, 'MB'],
        external: [external / 1e6, 'MB'],
      });
    }
    figures.addRatio('memory.growth', 'memory.p100.heap', 'memory.p10.heap');
    await child.call('close');
  }
  print(
    `## Memory\n\nStevedore's client, ${count(memoryOperations)} uploads, downloads and deletes of 1 KB over ${GOAL_CONNECTIONS} connections in one process; MB after a forced collection (outside the heap are the bytes that are uploaded, too):`,
  );
  table('memory', {
    head: 'Operations done',
    rows: MEMORY_PERCENTS.map((percent) => [`${percent} %`, `memory.p${percent}`]),
    columns: [
      ['heap', 'heap'],
      ['outside the heap', 'external'],
      ['resident', 'rss'],
    ],
  });
}

import type { BenchmarkContext } from '../harness/benchmark.js';
import { lineChart } from '../harness/line-chart.js';
import { round, spread, table } from '../harness/markdown.js';
import type { ClientName } from './clients.js';
import { GROWTH, MEMORY_PERCENTS, memoryId } from './memory.js';
import { piecesId, WAYS, type Way } from './pieces.js';
import { CONNECTIONS, GOAL_CONNECTIONS, type Plan, SIZES, type Size } from './plan.js';
import { type ServerName, serverNames } from './servers.js';
import {
  CLIENTS,
  DIRECTIONS,
  type Direction,
  type Failures,
  ratioId,
  transferId,
} from './transfers.js';

/** Tables and charts of what was measured. */

const CLIENT_NAMES: Readonly<Record<ClientName, string>> = {
  stevedore: "Stevedore's client",
  fdfs: 'fdfs',
};
const WAY_NAMES: Readonly<Record<Way, string>> = {
  ours: "by Stevedore's client",
  together: 'head and body in one write, by a bare socket',
  apart: "head and body in a write each, Nagle's algorithm on, by a bare socket",
};
const SERVER_NAMES: Readonly<Record<ServerName, string>> = {
  memory: 'Cluster in memory',
  storage: 'Storage as it is, on disk, synced',
  cluster: 'Named cluster',
};
const TITLES: Readonly<Record<Direction, string>> = { upload: 'Uploads', download: 'Downloads' };

export async function showTransfers(
  context: BenchmarkContext,
  failures: ReadonlyMap<ClientName, Failures>,
): Promise<void> {
  const { print } = context;
  for (const direction of DIRECTIONS) {
    print(`## ${TITLES[direction]}`);
    for (const server of serverNames(context)) {
      print(`${SERVER_NAMES[server]}; a second, median (least–greatest):`);
      print(transfersTable(context, direction, server));
    }
    if (context.trackers) {
      print("Stevedore's client: our storage, in times the named cluster.");
      print(storagesTable(context, direction));
    }
    await showChart(context, direction);
  }
  print(judgement(context));
  for (const [client, { count, first }] of failures) {
    print(
      `${CLIENT_NAMES[client]}: ${count} calls failed${first === undefined ? '.' : `; the first: ${first}`}`,
    );
  }
}

function transfersTable(
  { figures }: BenchmarkContext,
  direction: Direction,
  server: ServerName,
): string {
  const hasServerCpu = server !== 'cluster';
  return table(
    [
      'Size, connections',
      ...CLIENTS.map((client) => CLIENT_NAMES[client]),
      'times fdfs',
      'CPU of a call, µs',
      "fdfs'",
      'client, cores (load, %)',
      "fdfs'",
      ...(hasServerCpu ? ['server, cores', "with fdfs'"] : []),
    ],
    everyCase(({ size, connections }) => {
      const of = (client: ClientName, what: string) =>
        figures.summary(transferId(direction, server, client, size, connections, what));
      return [
        `${sizeName(size)}, ${connections}`,
        ...CLIENTS.map((client) => spread(of(client, 'operations'))),
        spread(figures.summary(ratioId(direction, server, size, connections, 'vs-fdfs'))),
        ...CLIENTS.map((client) => of(client, 'cpu.client-per-operation').median),
        ...CLIENTS.map((client) => {
          const load = (100 * of(client, 'cpu.load').median).toFixed(1);
          return `${of(client, 'cpu.client').median.toFixed(2)} (${load})`;
        }),
        ...(hasServerCpu
          ? CLIENTS.map((client) => of(client, 'cpu.server').median.toFixed(2))
          : []),
      ];
    }),
  );
}

function storagesTable({ figures }: BenchmarkContext, direction: Direction): string {
  return table(
    ['Size, connections', 'our storage, times the cluster'],
    everyCase(({ size, connections }) => [
      `${sizeName(size)}, ${connections}`,
      spread(figures.summary(ratioId(direction, 'storage', size, connections, 'vs-cluster'))),
    ]),
  );
}

async function showChart(context: BenchmarkContext, direction: Direction): Promise<void> {
  const { figures, chart } = context;
  const size = SIZES[0];
  const title = `${TITLES[direction]} of ${sizeName(size)} a second`;
  const series = serverNames(context).flatMap((server) =>
    CLIENTS.map((client) => ({
      name: `${CLIENT_NAMES[client]}, ${SERVER_NAMES[server].toLowerCase()}`,
      values: CONNECTIONS.map(
        (c) => figures.summary(transferId(direction, server, client, size, c, 'operations')).median,
      ),
    })),
  );
  const labels = CONNECTIONS.map(String);
  await chart(
    `client-${direction}.svg`,
    lineChart({ title, xTitle: 'connections', yTitle: `${direction}s/s`, labels, series }),
  );
}

/** Which ratio the goal is judged on, and the ones it is not judged on. */
function judgement(context: BenchmarkContext): string {
  const { figures } = context;
  const ratios = (server: ServerName) =>
    SIZES.map((size) => {
      const id = ratioId('upload', server, size, GOAL_CONNECTIONS, 'vs-fdfs');
      return `${round(figures.summary(id).median)} (${sizeName(size)})`;
    }).join(' and ');
  const others = serverNames(context).filter((server) => server !== 'memory');
  return [
    `The goal of ${GOAL_CONNECTIONS} connections is judged on the cluster in memory, where uploads are ${ratios('memory')} times those of fdfs: there the clients are compared, and not the disk.`,
    ...others.map((server) => `${SERVER_NAMES[server]}: ${ratios(server)} times.`),
  ].join('\n');
}

export function showPieces({ figures, print }: BenchmarkContext, plan: Plan): void {
  print('## Uploads in two pieces');
  print(
    `${plan.piecesUploads} uploads of ${sizeName(SIZES[1])} in each way, one at a time and in turns, against our storage on disk, synced; milliseconds of the median upload, median of the runs (least–greatest):`,
  );
  print(
    table(
      ['Written', 'ms'],
      WAYS.map((way) => [WAY_NAMES[way], spread(figures.summary(piecesId(way)))]),
    ),
  );
}

export function showMemory({ figures, print }: BenchmarkContext, plan: Plan): void {
  const { memoryOperations, memoryRuns } = plan;
  print('## Memory');
  print(
    [
      `Stevedore's client, ${memoryOperations.toLocaleString('en')} uploads, downloads and deletes of ${sizeName(SIZES[0])} over ${GOAL_CONNECTIONS} connections in one process, ${memoryRuns} ${memoryRuns === 1 ? 'run' : 'runs'}; MB after a forced collection (outside the heap are the bytes that are uploaded, too):`,
      '',
      table(
        ['Operations done', 'heap', 'outside the heap', 'resident'],
        MEMORY_PERCENTS.map((percent) => [
          `${percent} %`,
          spread(figures.summary(memoryId(percent, 'heap'))),
          spread(figures.summary(memoryId(percent, 'external'))),
          spread(figures.summary(memoryId(percent, 'rss'))),
        ]),
      ),
      '',
      `The heap at the end is ${figures.summary(GROWTH).median.toFixed(3)} times that at 10 %.`,
    ].join('\n'),
  );
}

interface Case {
  readonly size: Size;
  readonly connections: number;
}

function everyCase<T>(row: (which: Case) => T): T[] {
  return SIZES.flatMap((size) => CONNECTIONS.map((connections) => row({ size, connections })));
}

function sizeName({ bytes }: Size): string {
  return `${bytes / 1000} KB`;
}

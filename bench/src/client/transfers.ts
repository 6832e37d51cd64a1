import type { BenchmarkContext } from '../harness/benchmark.js';
import type { Child } from '../harness/child.js';
import { startClient } from './client-child.js';
import type { ClientHandlers, LoadCost, TransferResult } from './client-process.js';
import type { ClientName } from './clients.js';
import { CONNECTIONS, GOAL_CONNECTIONS, type Plan, SEED, SIZES, type Size } from './plan.js';
import { type Server, type ServerName, serverNames, startServer } from './servers.js';

/**
 * Uploads and downloads by both clients against the same servers. Each run has new
 * processes; within it the clients take turns, and who is first changes with the run.
 */

export const CLIENTS: readonly ClientName[] = ['stevedore', 'fdfs'];

export type Direction = 'upload' | 'download';
export const DIRECTIONS: readonly Direction[] = ['upload', 'download'];

export function transferId(
  direction: Direction,
  server: ServerName,
  client: ClientName,
  size: Size,
  connections: number,
  what: string,
): string {
  return `${direction}.${server}.${client}.${size.name}.c${connections}.${what}`;
}

/** How many times the one's operations a second the other's are. */
export function ratioId(
  direction: Direction,
  server: ServerName,
  size: Size,
  connections: number,
  what: 'vs-fdfs' | 'vs-cluster',
): string {
  return `${direction}.${server}.${size.name}.c${connections}.${what}`;
}

/** By bytes of a file. */
type LoadCosts = ReadonlyMap<number, LoadCost>;

export interface Failures {
  readonly count: number;
  readonly first: string | undefined;
}

interface Subject {
  readonly client: ClientName;
  readonly child: Child<ClientHandlers>;
}

interface Measurement {
  readonly subject: Subject;
  readonly server: Server;
  readonly size: Size;
  readonly connections: number;
  readonly costs: LoadCosts;
}

/** Answers with the calls that failed, by client. */
export async function measureTransfers(
  context: BenchmarkContext,
  plan: Plan,
): Promise<ReadonlyMap<ClientName, Failures>> {
  const costs = await measureLoadCosts(context, plan);
  const failures = new Map<ClientName, Failures>();
  const count = (client: ClientName, { errors, firstError }: TransferResult) => {
    const before = failures.get(client);
    failures.set(client, {
      count: (before?.count ?? 0) + errors,
      first: before?.first ?? firstError,
    });
  };
  for (let run = 1; run <= plan.runs; run += 1) {
    const servers: Server[] = [];
    const subjects: Subject[] = [];
    try {
      for (const name of serverNames(context)) servers.push(await startServer(context, name));
      for (const client of CLIENTS) subjects.push({ client, child: await startClient(client) });
      if (run % 2 === 0) subjects.reverse();
      for (const subject of subjects) {
        for (const server of servers) await warmUp(plan, subject, server);
      }
      for (const connections of CONNECTIONS) {
        context.progress(`run ${run} of ${plan.runs}, ${connections} connections`);
        for (const size of SIZES) {
          for (const server of servers) {
            for (const subject of subjects) {
              const of = { subject, server, size, connections, costs };
              for (const result of await measure(context, plan, of)) count(subject.client, result);
            }
          }
          addRatios(context, servers, size, connections);
        }
      }
    } finally {
      for (const { child } of subjects) await child[Symbol.asyncDispose]();
      for (const server of servers) await server[Symbol.asyncDispose]();
    }
  }
  return failures;
}

async function measureLoadCosts(
  { progress, figures }: BenchmarkContext,
  plan: Plan,
): Promise<LoadCosts> {
  progress('what the load itself costs');
  await using child = await startClient('load');
  const costs = new Map<number, LoadCost>();
  for (const { name, bytes } of SIZES) {
    const cost = await child.call('loadCost', {
      size: bytes,
      operations: plan.costOperations,
    });
    figures.add(`load.upload.${name}`, 'µs of CPU', cost.cpuSecondsPerUpload * 1e6);
    figures.add(`load.download.${name}`, 'µs of CPU', cost.cpuSecondsPerDownload * 1e6);
    costs.set(bytes, cost);
  }
  return costs;
}

async function warmUp(plan: Plan, { client, child }: Subject, server: Server): Promise<void> {
  const load = { concurrency: GOAL_CONNECTIONS, seconds: plan.warmUpSeconds / 2 };
  await child.call('open', { client, trackers: server.trackers, connections: GOAL_CONNECTIONS });
  await child.call('upload', { ...load, size: SIZES[0].bytes });
  await child.call('download', { ...load, seed: 0 });
  await child.call('close', undefined);
}

async function measure(
  { figures }: BenchmarkContext,
  plan: Plan,
  { subject: { client, child }, server, size, connections, costs }: Measurement,
): Promise<readonly TransferResult[]> {
  const cost = costs.get(size.bytes)!;
  const record = (
    direction: Direction,
    { operations, bytes, seconds, cpuSeconds, errors }: TransferResult,
    serverCpuSeconds: number | undefined,
  ) => {
    const add = (what: string, unit: string, value: number) =>
      figures.add(transferId(direction, server.name, client, size, connections, what), unit, value);
    const load = direction === 'upload' ? cost.cpuSecondsPerUpload : cost.cpuSecondsPerDownload;
    add('operations', 'operations/s', operations / seconds);
    add('MBps', 'MB/s', bytes / 1e6 / seconds);
    add('errors', 'calls', errors);
    add('cpu.client', 'cores', cpuSeconds / seconds);
    add('cpu.client-per-operation', 'µs', (cpuSeconds / operations) * 1e6);
    add('cpu.load', 'share', (load * operations) / cpuSeconds);
    if (serverCpuSeconds !== undefined) add('cpu.server', 'cores', serverCpuSeconds / seconds);
  };
  await child.call('open', { client, trackers: server.trackers, connections });
  const start = await server.cpuSeconds();
  const uploads = await child.call('upload', {
    size: size.bytes,
    concurrency: connections,
    seconds: plan.uploadSeconds,
  });
  const middle = await server.cpuSeconds();
  record('upload', uploads, difference(start, middle));
  const downloads = await child.call('download', {
    concurrency: connections,
    seconds: plan.downloadSeconds,
    seed: SEED + connections,
  });
  record('download', downloads, difference(middle, await server.cpuSeconds()));
  await child.call('close', undefined);
  return [uploads, downloads];
}

function difference(before: number | undefined, after: number | undefined): number | undefined {
  return before === undefined || after === undefined ? undefined : after - before;
}

/** Of this run: what slows the machine for a while slows both. */
function addRatios(
  { figures }: BenchmarkContext,
  servers: readonly Server[],
  size: Size,
  connections: number,
): void {
  for (const direction of DIRECTIONS) {
    const last = (server: ServerName, client: ClientName) =>
      figures
        .values(transferId(direction, server, client, size, connections, 'operations'))
        .at(-1)!;
    for (const { name } of servers) {
      const id = ratioId(direction, name, size, connections, 'vs-fdfs');
      figures.add(id, 'times', last(name, 'stevedore') / last(name, 'fdfs'));
    }
    if (servers.some(({ name }) => name === 'cluster')) {
      const id = ratioId(direction, 'storage', size, connections, 'vs-cluster');
      figures.add(id, 'times', last('storage', 'stevedore') / last('cluster', 'stevedore'));
    }
  }
}

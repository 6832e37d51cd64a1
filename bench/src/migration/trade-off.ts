import type { TierOptions } from '@stevedore/tiering';
import type { BenchmarkContext } from '../harness/benchmark.js';
import { Child } from '../harness/child.js';
import type { LoadHandlers, LoadResult } from './load-process.js';
import type { Plan } from './plan.js';
import type { StorageHandlers } from './storage-process.js';
import type { TrackerHandlers } from './tracker-process.js';

/**
 * Figure 4: metadata and small-file throughput of one metadata server while no to 16
 * clients write and read small files, with the method and without it. Tracker, storage
 * and the two generators are processes of their own, and stay for all turns of a run: a
 * server is compared with itself a few seconds before. Metadata comes from loops that ask
 * the next thing when they have their answer, and, once more, at a rate that leaves room.
 */

export const CLIENTS = [0, 1, 2, 4, 8, 16] as const;
/** In a run; what the goal compares follows each other, in both orders. */
const TURNS: readonly (typeof CLIENTS)[number][] = [1, 16, 16, 1, 1, 16, 16, 1, 0, 2, 4, 8];
export const VARIANTS = ['baseline', 'method'] as const;
export type Variant = (typeof VARIANTS)[number];
/** Of the metadata generator where it keeps to a rate. */
export const PACED_PER_SECOND = 300;

export const METADATA_LOOPS = 4;
export const FILES = 64;
export const FILE_BYTES = 16 * 1024;

/** Without the method: small files beside their metadata, served as they come. */
export const TIERS: Readonly<Record<Variant, TierOptions>> = {
  baseline: { enabled: true, migrates: false, maxRunning: 10_000, maxBesideMetadata: 10_000 },
  method: { enabled: true },
};

type Kind = 'metadata' | 'small-files';

export function throughputId(variant: Variant, kind: Kind, clients: number) {
  return `trade-off.${variant}.${kind}.c${clients}`;
}

/** Of metadata: the time within which 99 of 100 requests are answered, and half of them. */
export function latencyId(variant: Variant, clients: number, share: 'p50' | 'p99') {
  return `trade-off.${variant}.metadata.c${clients}.${share}`;
}

export function pacedId(variant: Variant, what: Kind | 'p50' | 'p99') {
  return `trade-off.paced.${variant}.${what}`;
}

export const GENERATOR_CPU_ID = 'trade-off.generators.cpu';
export const STORAGE_CPU_ID = 'trade-off.storage.cpu';

export async function measureTradeOff(context: BenchmarkContext, plan: Plan): Promise<void> {
  for (let run = 0; run < plan.throughputRuns; run += 1) {
    const inTurn = run % 2 === 0 ? VARIANTS : [...VARIANTS].reverse();
    for (const variant of inTurn) {
      const directory = context.workspace.fresh('trade-off');
      await measureVariant(context, plan, variant, directory, run + 1);
      await context.workspace.remove(directory);
    }
  }
  await drawTradeOff(context);
}

async function measureVariant(
  { figures, progress }: BenchmarkContext,
  plan: Plan,
  variant: Variant,
  directory: string,
  run: number,
): Promise<void> {
  await using server = await Server.start(variant, directory);
  progress(`${variant}, warm-up, run ${run}`);
  await server.load({ clients: 16, warmUpSeconds: 0, seconds: plan.warmUpSeconds });
  const seconds = plan.turnSeconds;
  const turn = { warmUpSeconds: plan.settleSeconds, seconds };
  const rate = ({ requests }: LoadResult) => requests / seconds;
  for (const clients of TURNS) {
    progress(`${variant}, ${clients} clients, run ${run}`);
    const { metadata, smallFiles, storageCpu } = await server.load({ clients, ...turn });
    figures.add(throughputId(variant, 'metadata', clients), 'requests/s', rate(metadata));
    figures.add(throughputId(variant, 'small-files', clients), 'requests/s', rate(smallFiles));
    figures.add(latencyId(variant, clients, 'p50'), 'ms', metadata.p50Ms);
    figures.add(latencyId(variant, clients, 'p99'), 'ms', metadata.p99Ms);
    const generators = (metadata.cpuSeconds + smallFiles.cpuSeconds) / seconds;
    figures.add(GENERATOR_CPU_ID, 'cores', generators);
    figures.add(STORAGE_CPU_ID, 'cores', storageCpu);
  }
  progress(`${variant}, metadata at a rate, run ${run}`);
  const requestsPerSecond = PACED_PER_SECOND;
  const { metadata, smallFiles } = await server.load({ clients: 16, ...turn, requestsPerSecond });
  figures.add(pacedId(variant, 'metadata'), 'requests/s', rate(metadata));
  figures.add(pacedId(variant, 'small-files'), 'requests/s', rate(smallFiles));
  figures.add(pacedId(variant, 'p50'), 'ms', metadata.p50Ms);
  figures.add(pacedId(variant, 'p99'), 'ms', metadata.p99Ms);
}

interface Turn {
  /** Small-file clients. */
  readonly clients: number;
  readonly warmUpSeconds: number;
  readonly seconds: number;
  /** Of metadata; undefined: as fast as it is answered. */
  readonly requestsPerSecond?: number;
}

interface Measured {
  readonly metadata: LoadResult;
  readonly smallFiles: LoadResult;
  /** Cores that the storage was using. */
  readonly storageCpu: number;
}

/** Tracker, storage and two generators. */
class Server implements AsyncDisposable {
  readonly #tracker = child<TrackerHandlers>('tracker', './tracker-process.js');
  readonly #storage = child<StorageHandlers>('storage', './storage-process.js');
  readonly #metadata = child<LoadHandlers>('metadata load', './load-process.js');
  readonly #smallFiles = child<LoadHandlers>('small-file load', './load-process.js');
  #address = '';
  #files: readonly string[] = [];

  static async start(variant: Variant, directory: string): Promise<Server> {
    const server = new Server();
    try {
      const tracker = await server.#tracker.call('start');
      await server.#storage.call('start', { directory, tiers: TIERS[variant], tracker });
      const about = { tracker, count: FILES, bytes: FILE_BYTES };
      server.#address = tracker;
      server.#files = await server.#metadata.call('files', about);
      return server;
    } catch (error) {
      await server[Symbol.asyncDispose]();
      throw error;
    }
  }

  async load({ clients, warmUpSeconds, seconds, requestsPerSecond }: Turn): Promise<Measured> {
    const common = { tracker: this.#address, seconds, warmUpSeconds, fileBytes: FILE_BYTES };
    const cpuBefore = await this.#storage.cpuSeconds();
    const [metadata, smallFiles] = await Promise.all([
      this.#metadata.call('run', {
        ...common,
        kind: 'metadata',
        loops: METADATA_LOOPS,
        files: this.#files,
        requestsPerSecond,
      }),
      this.#smallFiles.call('run', { ...common, kind: 'small-files', loops: clients, files: [] }),
    ]);
    const cpu = (await this.#storage.cpuSeconds()) - cpuBefore;
    return { metadata, smallFiles, storageCpu: cpu / (seconds + warmUpSeconds) };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const each of [this.#smallFiles, this.#metadata, this.#storage, this.#tracker]) {
      await each[Symbol.asyncDispose]();
    }
  }
}

export function child<H extends LoadHandlers | StorageHandlers | TrackerHandlers>(
  name: string,
  module: string,
): Child<H> {
  return new Child<H>(new URL(module, import.meta.url));
}

async function drawTradeOff({ figures, chart }: BenchmarkContext): Promise<void> {
  for (const kind of ['metadata', 'small-files'] as const) {
    await chart(`migration-trade-off-${kind}.svg`, {
      title: `Figure 4: ${kind === 'metadata' ? 'metadata' : 'small-file'} throughput`,
      xTitle: 'Clients that write and read small files',
      yTitle: 'Requests per second',
      labels: CLIENTS.map(String),
      series: VARIANTS.map((variant) => ({
        name: variant === 'method' ? 'With the method' : 'Baseline',
        values: CLIENTS.map(
          (clients) => figures.summary(throughputId(variant, kind, clients)).median,
        ),
      })),
    });
  }
}

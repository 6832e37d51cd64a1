import type { TierOptions } from '@stevedore/storage';
import type { BenchmarkContext } from '../harness/benchmark.js';
import { Child } from '../harness/child.js';
import { lineChart } from '../harness/line-chart.js';
import type { LoadHandlers, LoadResult } from './load-process.js';
import type { Plan } from './plan.js';
import type { StorageHandlers } from './storage-process.js';
import type { TrackerHandlers } from './tracker-process.js';

/**
 * Figure 4: metadata and small-file throughput of one metadata server while 1 to 16
 * clients write and read small files, with the method and without it. Tracker, storage
 * and the two generators are processes of their own. Metadata comes from loops that ask
 * the next thing when they have their answer, and, once more, at a rate that leaves room.
 */

export const CLIENTS = [1, 2, 4, 8, 16] as const;
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
  const { figures, progress } = context;
  for (let run = 0; run < plan.throughputRuns; run += 1) {
    for (const clients of CLIENTS) {
      for (const variant of VARIANTS) {
        progress(`${variant}, ${clients} clients, run ${run + 1}`);
        const { metadata, smallFiles, storageCpu } = await measure(context, plan, variant, clients);
        const perSecond = (id: string, { requests }: LoadResult) =>
          figures.add(id, 'requests/s', requests / plan.throughputSeconds);
        perSecond(throughputId(variant, 'metadata', clients), metadata);
        perSecond(throughputId(variant, 'small-files', clients), smallFiles);
        figures.add(latencyId(variant, clients, 'p50'), 'ms', metadata.p50Ms);
        figures.add(latencyId(variant, clients, 'p99'), 'ms', metadata.p99Ms);
        const generators = (metadata.cpuSeconds + smallFiles.cpuSeconds) / plan.throughputSeconds;
        figures.add(GENERATOR_CPU_ID, 'cores', generators);
        figures.add(STORAGE_CPU_ID, 'cores', storageCpu);
      }
    }
    for (const variant of VARIANTS) {
      progress(`${variant}, metadata at a rate, run ${run + 1}`);
      const rate = PACED_PER_SECOND;
      const { metadata, smallFiles } = await measure(context, plan, variant, 16, rate);
      const seconds = plan.throughputSeconds;
      figures.add(pacedId(variant, 'metadata'), 'requests/s', metadata.requests / seconds);
      figures.add(pacedId(variant, 'small-files'), 'requests/s', smallFiles.requests / seconds);
      figures.add(pacedId(variant, 'p50'), 'ms', metadata.p50Ms);
      figures.add(pacedId(variant, 'p99'), 'ms', metadata.p99Ms);
    }
  }
  await drawTradeOff(context);
}

interface Measured {
  readonly metadata: LoadResult;
  readonly smallFiles: LoadResult;
  /** Cores that the storage was using. */
  readonly storageCpu: number;
}

async function measure(
  { workspace }: BenchmarkContext,
  plan: Plan,
  variant: Variant,
  clients: number,
  requestsPerSecond?: number,
): Promise<Measured> {
  const directory = workspace.fresh('trade-off');
  let measured: Measured;
  {
    await using trackerProcess = child<TrackerHandlers>('tracker', './tracker-process.js');
    await using storage = child<StorageHandlers>('storage', './storage-process.js');
    await using metadataLoad = child<LoadHandlers>('metadata load', './load-process.js');
    await using smallFileLoad = child<LoadHandlers>('small-file load', './load-process.js');
    const tracker = await trackerProcess.call('start', undefined);
    await storage.call('start', { directory, tiers: TIERS[variant], tracker });
    const files = await metadataLoad.call('files', { tracker, count: FILES, bytes: FILE_BYTES });
    const cpuBefore = await storage.cpuSeconds();
    const seconds = plan.throughputSeconds;
    const common = { tracker, seconds, warmUpSeconds: plan.warmUpSeconds, fileBytes: FILE_BYTES };
    const [metadata, smallFiles] = await Promise.all([
      metadataLoad.call('run', {
        ...common,
        kind: 'metadata',
        loops: METADATA_LOOPS,
        files,
        requestsPerSecond,
      }),
      smallFileLoad.call('run', { ...common, kind: 'small-files', loops: clients, files: [] }),
    ]);
    const cpu = (await storage.cpuSeconds()) - cpuBefore;
    measured = { metadata, smallFiles, storageCpu: cpu / (seconds + plan.warmUpSeconds) };
  }
  await workspace.remove(directory);
  return measured;
}

export function child<H extends LoadHandlers | StorageHandlers | TrackerHandlers>(
  name: string,
  module: string,
): Child<H> {
  return new Child<H>(name, new URL(module, import.meta.url));
}

async function drawTradeOff({ figures, chart }: BenchmarkContext): Promise<void> {
  for (const kind of ['metadata', 'small-files'] as const) {
    await chart(
      `migration-trade-off-${kind}.svg`,
      lineChart({
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
      }),
    );
  }
}

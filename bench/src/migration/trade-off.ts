import { FastdfsClient } from '@stevedore/fastdfs';
import type { TierOptions } from '@stevedore/storage';
import type { BenchmarkContext } from '../harness/benchmark.js';
import { Child } from '../harness/child.js';
import { lineChart } from '../harness/line-chart.js';
import type { Plan } from './plan.js';
import type { StorageHandlers } from './storage-process.js';

/**
 * Figure 4: metadata and small-file throughput of one metadata server while 1 to 16
 * clients write and read small files, with the method and without it. Metadata comes
 * from loops of its own, each asking the next thing when it has its answer.
 */

export const CLIENTS = [1, 2, 4, 8, 16] as const;
export const VARIANTS = ['baseline', 'method'] as const;
export type Variant = (typeof VARIANTS)[number];

const METADATA_LOOPS = 4;
const FILES = 64;
const FILE_BYTES = 16 * 1024;

/** Without the method: small files beside their metadata, served as they come. */
const TIERS: Readonly<Record<Variant, TierOptions>> = {
  baseline: { enabled: true, migrates: false, maxRunning: 10_000, maxBesideMetadata: 10_000 },
  method: { enabled: true },
};

export function throughputId(variant: Variant, kind: 'metadata' | 'small-files', clients: number) {
  return `trade-off.${variant}.${kind}.c${clients}`;
}

export async function measureTradeOff(context: BenchmarkContext, plan: Plan): Promise<void> {
  for (let run = 0; run < plan.throughputRuns; run += 1) {
    for (const clients of CLIENTS) {
      for (const variant of VARIANTS) {
        context.progress(`${variant}, ${clients} clients, run ${run + 1}`);
        await measure(context, plan, variant, clients);
      }
    }
  }
  await drawTradeOff(context);
}

async function measure(
  { figures, workspace }: BenchmarkContext,
  plan: Plan,
  variant: Variant,
  clients: number,
): Promise<void> {
  const directory = workspace.fresh('trade-off');
  {
    await using node = new Child<StorageHandlers>(
      'storage',
      new URL('./storage-process.js', import.meta.url),
    );
    const tracker = await node.call('start', { directory, tiers: TIERS[variant] });
    await using client = new FastdfsClient({ trackers: [tracker] });
    const body = Buffer.alloc(FILE_BYTES, 0x5a);
    const files = await Promise.all(Array.from({ length: FILES }, () => client.upload(body)));
    const end = performance.now() + plan.throughputSeconds * 1000;
    const counts = { metadata: 0, smallFiles: 0 };
    const metadata = async (loop: number): Promise<void> => {
      for (let turn = loop; performance.now() < end; turn += 1) {
        await client.setMetadata(files[turn % FILES]!, { turn: String(turn) });
        counts.metadata += 1;
      }
    };
    const smallFiles = async (): Promise<void> => {
      while (performance.now() < end) {
        const file = await client.upload(body);
        const read = await client.downloadBytes(file);
        if (!read.equals(body)) throw new Error(`${file} came back with other bytes`);
        counts.smallFiles += 2;
      }
    };
    await Promise.all([
      ...Array.from({ length: METADATA_LOOPS }, (_, loop) => metadata(loop)),
      ...Array.from({ length: clients }, smallFiles),
    ]);
    const perSecond = (count: number) => count / plan.throughputSeconds;
    figures.add(
      throughputId(variant, 'metadata', clients),
      'requests/s',
      perSecond(counts.metadata),
    );
    figures.add(
      throughputId(variant, 'small-files', clients),
      'requests/s',
      perSecond(counts.smallFiles),
    );
  }
  await workspace.remove(directory);
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

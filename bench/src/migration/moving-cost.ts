import { FastdfsClient } from '@stevedore/fastdfs';
import type { TierOptions } from '@stevedore/tiering';
import type { BenchmarkContext } from '../harness/benchmark.js';
import { Child } from '../harness/child.js';
import { settled, until } from '../harness/load.js';
import type { Plan } from './plan.js';
import type { StorageHandlers } from './storage-process.js';
import type { TrackerHandlers } from './tracker-process.js';

/**
 * Figure 6: what a write costs that makes a file outgrow its threshold of 1 MiB, over
 * the size of the write. Files are filled to the last write of that size which still
 * fits their rows; the next one is measured. A tracker, a plain storage as the group to
 * move to and a storage for each way, each a process of its own; the client is this process.
 */

const KIB = 1024;
const THRESHOLD_BYTES = 1024 * KIB;
const TARGET_GROUP = 'target';

export const ACCESS_KIB = [4, 16, 64, 256, 1024, 4096] as const;
export type AccessKib = (typeof ACCESS_KIB)[number];

export const WAYS = ['none', 'here', 'away'] as const;
export type Way = (typeof WAYS)[number];

export const WAY_TEXTS: Readonly<Record<Way, string>> = {
  none: 'No migration: the row holds it',
  here: 'It becomes a file of the storage',
  away: 'It goes on to another group',
};

const FIXED = { enabled: true, migrates: false, thresholdBytes: THRESHOLD_BYTES } as const;

const TIERS: Readonly<Record<Way, TierOptions>> = {
  none: {
    ...FIXED,
    thresholdBytes: 16 * THRESHOLD_BYTES,
    parameters: { maximumThresholdBytes: 16 * THRESHOLD_BYTES },
  },
  here: FIXED,
  away: { ...FIXED, moveTo: TARGET_GROUP },
};

export function costId(way: Way, access: AccessKib): string {
  return `cost.${way}.a${access}.ms`;
}

/** Of the costs of a way, over those of a file of the storage in the same turn. */
export function costRatioId(way: Way, access: AccessKib): string {
  return `cost.${way}.a${access}.vs-here`;
}

export async function measureMovingCost(context: BenchmarkContext, plan: Plan): Promise<void> {
  const opened: AsyncDisposable[] = [];
  try {
    await measureAll(context, plan, (one) => {
      opened.unshift(one);
      return one;
    });
  } finally {
    // The last one first.
    for (const each of opened) await each[Symbol.asyncDispose]();
  }
  await draw(context);
}

async function measureAll(
  { workspace, figures, progress }: BenchmarkContext,
  plan: Plan,
  keep: <One extends AsyncDisposable>(one: One) => One,
): Promise<void> {
  const child = <H extends StorageHandlers | TrackerHandlers>(
    name: string,
    module: string,
  ): Child<H> => keep(new Child<H>(new URL(module, import.meta.url)));
  const trackerProcess = child<TrackerHandlers>('tracker', './tracker-process.js');
  const target = child<StorageHandlers>('target', './storage-process.js');
  const storages = WAYS.map((way) => ({
    way,
    storage: child<StorageHandlers>('storage', './storage-process.js'),
  }));
  const tracker = await trackerProcess.call('start');
  await settled<unknown>([
    target.call('start', {
      directory: workspace.fresh('cost-target'),
      tiers: {},
      tracker,
      group: TARGET_GROUP,
    }),
    ...storages.map(async ({ way, storage }) => {
      const directory = workspace.fresh(`cost-${way}`);
      await storage.call('start', { directory, tiers: TIERS[way], tracker, group: way });
    }),
  ]);
  const client = keep(new FastdfsClient({ trackers: [tracker] }));
  const away = storages.find(({ way }) => way === 'away')!.storage;
  for (let run = 0; run < plan.costRuns; run += 1) {
    for (const access of ACCESS_KIB) {
      progress(`cost of a migration, writes of ${access} KiB, run ${run + 1}`);
      const sizes = { filled: filledBytes(access * KIB), access: access * KIB };
      const files = new Map<Way, string[]>();
      for (const way of WAYS) files.set(way, await fill(client, way, sizes, plan.costFiles));
      const costs = new Map<Way, number[]>(WAYS.map((way) => [way, []]));
      // One file of each way after the other: what slows the machine for a while slows all.
      for (let turn = 0; turn < plan.costFiles; turn += 1) {
        for (const way of inTurns(run + turn)) {
          const cost = await grow(client, files.get(way)![turn]!, sizes);
          costs.get(way)!.push(cost);
        }
      }
      await until('the files have gone', async () => {
        const { queued, remote: gone } = await away.call('status');
        return queued === 0 && gone.files === plan.costFiles;
      });
      for (const way of WAYS) {
        figures.add(costId(way, access), 'ms', mean(costs.get(way)!));
        for (const [turn, cost] of costs.get(way)!.entries()) {
          figures.add(costRatioId(way, access), 'ratio', cost / costs.get('here')![turn]!);
        }
        await checkAndDelete(client, files.get(way)!, sizes);
      }
    }
  }
}

/** Each turn begins with another way. */
function inTurns(turn: number): Way[] {
  const first = turn % WAYS.length;
  return [...WAYS.slice(first), ...WAYS.slice(0, first)];
}

interface Sizes {
  /** What a file has before. */
  readonly filled: number;
  readonly access: number;
}

/** The last write of its size that its row still holds has been made. */
function filledBytes(accessBytes: number): number {
  return Math.floor(THRESHOLD_BYTES / accessBytes) * accessBytes;
}

async function fill(
  client: FastdfsClient,
  group: string,
  { filled }: Sizes,
  count: number,
): Promise<string[]> {
  const files: string[] = [];
  for (let file = 0; file < count; file += 1) {
    files.push(await client.uploadAppender(pattern(filled), { extension: 'dat', group }));
  }
  return files;
}

/** Milliseconds of the write that makes the file migrate. */
async function grow(
  client: FastdfsClient,
  file: string,
  { filled, access }: Sizes,
): Promise<number> {
  const bytes = pattern(filled + access).subarray(filled);
  const start = performance.now();
  await client.append(file, bytes);
  return performance.now() - start;
}

async function checkAndDelete(
  client: FastdfsClient,
  files: readonly string[],
  { filled, access }: Sizes,
): Promise<void> {
  for (const file of files) {
    const found = await client.downloadBytes(file);
    if (!found.equals(pattern(filled + access))) throw new Error(`${file} has other bytes`);
    await client.delete(file);
  }
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, each) => sum + each, 0) / values.length;
}

const PATTERN = Buffer.from(
  Array.from({ length: 6 * 1024 * KIB }, (_, index) => (index * 31 + (index >> 12)) % 251),
);

function pattern(bytes: number): Buffer {
  return PATTERN.subarray(0, bytes);
}

async function draw({ figures, chart }: BenchmarkContext): Promise<void> {
  await chart('migration-cost.svg', {
    title: 'Figure 6: cost of a write that makes a file migrate',
    xTitle: 'Size of the write',
    yTitle: 'Milliseconds',
    labels: ACCESS_KIB.map((kib) => (kib < 1024 ? `${kib} KiB` : `${kib / 1024} MiB`)),
    series: WAYS.map((way) => ({
      name: WAY_TEXTS[way],
      values: ACCESS_KIB.map((access) => figures.summary(costId(way, access)).median),
    })),
  });
}

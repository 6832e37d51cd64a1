import { mkdir } from 'node:fs/promises';
import type { BenchmarkContext } from '../harness/benchmark.js';
import { Child } from '../harness/child.js';
import { Nodes } from '../harness/nodes.js';
import { cacheBytesFor, hitRatioOf, runCache } from './cache-model.js';
import { type Site, simulateGateway } from './gateway-trunks.js';
import { measureIndexes } from './index-writer.js';
import { ID_MAX_AGE_MS, MAX_AGE_MS, type RealPlan, SEED } from './plan.js';
import type { Kept, RealHandlers, Stored } from './real-process.js';

/** A real store with so many files, beside what the simulator says of the same files. */

export const COMPARED = [
  'trunks',
  'fill',
  'filemap-bytes',
  'map-rows',
  'map-bytes',
  'hit-ratio',
] as const;
export type Compared = (typeof COMPARED)[number];

const UNITS: Readonly<Record<Compared, string>> = {
  trunks: 'trunks',
  fill: 'share',
  'filemap-bytes': 'bytes',
  'map-rows': 'rows',
  'map-bytes': 'bytes',
  'hit-ratio': 'share',
};

export function realId(what: string, side: 'predicted' | 'measured' | 'difference'): string {
  return `real.${what}.${side}`;
}

const CALL_LIMIT_MS = 900_000;
const MEBI = 2 ** 20;
/** The cache is predicted from a tenth of the files. */
const SMALLER = 10;

type Values = Readonly<Record<Compared, number>>;

export async function compareWithReal(context: BenchmarkContext, plan: RealPlan): Promise<void> {
  const { figures } = context;
  const { measured, stored } = await measureReal(context, plan);
  const predicted = await predict(context, plan, stored.uploadSeconds);
  for (const what of COMPARED) {
    figures.add(realId(what, 'measured'), UNITS[what], measured[what]);
    figures.add(realId(what, 'predicted'), UNITS[what], predicted[what]);
    const difference = Math.abs(predicted[what] / measured[what] - 1);
    figures.add(realId(what, 'difference'), 'share', difference);
  }
}

async function measureReal(
  { workspace, figures, progress }: BenchmarkContext,
  plan: RealPlan,
): Promise<{ readonly measured: Values; readonly stored: Stored }> {
  const directory = workspace.fresh('real');
  await mkdir(directory, { recursive: true });
  try {
    await using node = new Nodes();
    const trackers = [await node.cluster(`${directory}/node`)];
    await using child = new Child<RealHandlers>(new URL('./real-process.js', import.meta.url), {
      callLimitMs: CALL_LIMIT_MS,
    });
    const { files, meanBytes, trunkBytes, exponent, warmUp, counted } = plan;
    const cacheBytes = cacheBytesFor(roomOf(plan), meanBytes);
    progress(`uploading ${files} files`);
    const run = { directory, trackers, files, meanBytes, trunkBytes, cacheBytes, seed: SEED };
    const stored = await child.call('store', run);
    progress('reading them');
    const reads = await child.call('read', { exponent, warmUp, counted, seed: SEED });
    progress('a restart, and a lost map');
    const kept = await child.call('close');
    if (kept.rebuiltFiles !== files) throw new Error(`${kept.rebuiltFiles} files were rebuilt`);
    addRates(figures, files, stored, kept);
    figures.add('real.reads', 'reads/s', Math.ceil(files * counted) / reads.seconds);
    const measured = {
      trunks: stored.trunks,
      fill: meanFill(stored.fills),
      'filemap-bytes': kept.fileMapBytes / files,
      'map-rows': kept.mapRows,
      'map-bytes': kept.mapBytes / files,
      'hit-ratio': reads.hitRatio,
    };
    return { measured, stored };
  } finally {
    await workspace.remove(directory);
  }
}

function addRates(
  figures: BenchmarkContext['figures'],
  files: number,
  stored: Stored,
  kept: Kept,
): void {
  figures.add('real.uploads', 'files/s', files / stored.uploadSeconds);
  figures.add('real.merged', 'files/s', files / stored.seconds);
  figures.add('real.restart', 's', kept.restartSeconds);
  figures.add('real.rebuild', 'files/s', files / kept.rebuildSeconds);
  figures.add('real.map-size', 'MiB', kept.mapBytes / MEBI);
}

/** Of the same files in the same time; indexes and cache from a part of them. */
async function predict(
  { workspace, progress }: BenchmarkContext,
  plan: RealPlan,
  uploadSeconds: number,
): Promise<Values> {
  const { files, exponent, sampleShare, warmUp, counted } = plan;
  progress('the same files in the simulator');
  const site = realSite(plan, uploadSeconds);
  const trunks = await simulateGateway(site);
  const sample = Math.ceil(files * sampleShare);
  const directory = workspace.fresh('predicted');
  const indexes = await measureIndexes(directory, { ...site, files: sample });
  await workspace.remove(directory);
  const small = Math.ceil(files / SMALLER);
  const cache = await runCache({
    ...{ files: small, exponent, warmUp, counted, isUploaded: true, seed: SEED + 1 },
    roomFiles: Math.ceil(small * plan.roomShare),
  });
  return {
    trunks: trunks.stored,
    fill: trunks.storedBytes / trunks.stored / plan.trunkBytes,
    'filemap-bytes': indexes.fileMapBytesPerFile + indexes.emptyFileMapBytes / files,
    'map-rows': trunks.files,
    'map-bytes': indexes.mapBytesPerFile + indexes.emptyMapBytes / files,
    'hit-ratio': hitRatioOf(roomOf(plan), { files, exponent, yield: cache.yield }),
  };
}

function realSite({ files, meanBytes, trunkBytes }: RealPlan, uploadSeconds: number): Site {
  return {
    ...{ origin: 1, files, filesPerSecond: files / uploadSeconds, isRandom: false },
    ...{ meanBytes, trunkBytes, maxAgeMs: MAX_AGE_MS, idMaxAgeMs: ID_MAX_AGE_MS },
    ...{ flushes: true, seed: SEED },
  };
}

function roomOf({ files, roomShare }: RealPlan): number {
  return Math.ceil(files * roomShare);
}

function meanFill(fills: readonly number[]): number {
  return fills.reduce((sum, fill) => sum + fill, 0) / fills.length;
}

import { mkdir } from 'node:fs/promises';
import type { BenchmarkContext } from '../harness/benchmark.js';
import { mean } from '../harness/figures.js';
import { count, percent } from '../harness/markdown.js';
import { start } from '../harness/processes.js';
import { cacheBytesFor, hitRatioOf, runCache } from './cache-model.js';
import { simulateGateway } from './gateway-trunks.js';
import { measureIndexes } from './indexes.js';
import { DEFAULTS, type RealPlan, SEED } from './plan.js';

/** A real store with so many files, beside what the simulator says of the same files. */

export const COMPARED = {
  trunks: { name: 'trunks in FastDFS', unit: 'trunks', tolerance: 0.1 },
  fill: { name: 'how full they are', unit: 'share', tolerance: 0.1 },
  'filemap-bytes': { name: 'bytes of the FileMap a file', unit: 'bytes', tolerance: 0.15 },
  'map-rows': { name: 'rows of the map', unit: 'rows', tolerance: 0.001 },
  'map-bytes': { name: 'bytes of the map a file', unit: 'bytes', tolerance: 0.15 },
  'hit-ratio': { name: 'hit ratio of reads', unit: 'share', tolerance: 0.1 },
} as const;
type Compared = keyof typeof COMPARED;
type Values = Readonly<Record<Compared, number>>;

const CALL_LIMIT_MS = 900_000;
/** The cache is predicted from a tenth of the files. */
const SMALLER = 10;

export async function compareWithReal(context: BenchmarkContext, plan: RealPlan): Promise<void> {
  const { figures, print, table } = context;
  const { measured, uploadSeconds } = await measureReal(context, plan);
  const predicted = await predict(context, plan, uploadSeconds);
  const names = Object.keys(COMPARED) as Compared[];
  for (const what of names) {
    const { unit } = COMPARED[what];
    figures.addAll(`real.${what}`, {
      measured: [measured[what], unit],
      predicted: [predicted[what], unit],
      difference: [Math.abs(predicted[what] / measured[what] - 1), 'share'],
    });
  }
  print(`## Compared with a real store with ${count(plan.files)} files`);
  table('real', {
    head: '',
    rows: names.map((what) => [COMPARED[what].name, `real.${what}`]),
    columns: [
      ['Predicted', 'predicted'],
      ['Measured', 'measured'],
      ['Apart', 'difference', percent],
    ],
  });
}

async function measureReal({ workspace, progress }: BenchmarkContext, plan: RealPlan) {
  const directory = workspace.fresh('real');
  await mkdir(directory, { recursive: true });
  try {
    await using node = start('harness/nodes');
    const trackers = [await node.call('group', `${directory}/node`)];
    await using child = start('scaling/real', { callLimitMs: CALL_LIMIT_MS });
    const { files, meanBytes, trunkBytes, exponent, warmUp, counted } = plan;
    const cacheBytes = cacheBytesFor(roomOf(plan), meanBytes);
    progress(`uploading ${files} files`);
    const run = { directory, trackers, files, meanBytes, trunkBytes, cacheBytes, seed: SEED };
    const { uploadSeconds, fills } = await child.call('fill', run);
    progress('reading them');
    const reads = await child.call('read', { exponent, warmUp, counted, seed: SEED });
    const kept = await child.call('leaves', directory);
    const measured: Values = {
      trunks: fills.length,
      fill: mean(fills),
      'filemap-bytes': kept.fileMapBytes / files,
      'map-rows': kept.mapRows,
      'map-bytes': kept.mapBytes / files,
      'hit-ratio': reads.hitRatio,
    };
    return { measured, uploadSeconds };
  } finally {
    await workspace.remove(directory);
  }
}

/** Of the same files in the same time; indexes and cache from a part of them. */
async function predict(
  { workspace, progress }: BenchmarkContext,
  plan: RealPlan,
  uploadSeconds: number,
): Promise<Values> {
  const { files, meanBytes, trunkBytes, exponent, sampleShare, warmUp, counted } = plan;
  progress('the same files in the simulator');
  const site = {
    ...{ ...DEFAULTS, origin: 1, files, filesPerSecond: files / uploadSeconds, isRandom: false },
    ...{ meanBytes, trunkBytes, flushes: true, seed: SEED },
  };
  const trunks = await simulateGateway(site);
  const directory = workspace.fresh('predicted');
  const sample = { ...site, files: Math.ceil(files * sampleShare) };
  const indexes = await measureIndexes(directory, sample);
  await workspace.remove(directory);
  const small = Math.ceil(files / SMALLER);
  const cache = await runCache({
    ...{ files: small, exponent, warmUp, counted, isUploaded: true, seed: SEED + 1 },
    roomFiles: Math.ceil(small * plan.roomShare),
  });
  return {
    trunks: trunks.stored,
    fill: trunks.storedBytes / trunks.stored / trunkBytes,
    'filemap-bytes': indexes.fileMapBytesPerFile + indexes.emptyFileMapBytes / files,
    'map-rows': trunks.files,
    'map-bytes': indexes.mapBytesPerFile + indexes.emptyMapBytes / files,
    'hit-ratio': hitRatioOf(roomOf(plan), { files, exponent, yield: cache.yield }),
  };
}

function roomOf({ files, roomShare }: RealPlan): number {
  return Math.ceil(files * roomShare);
}

import type { BenchmarkContext } from '../harness/benchmark.js';
import { type Cell, table } from '../harness/markdown.js';
import { ENTRY_BYTES, hitRatioOf, measureYields, roomFor, type Yields } from './cache-model.js';
import { scalingId } from './goals.js';
import { amount, bytesText } from './output.js';
import { EXPONENTS, FILES, HIT_RATIOS, MEAN_BYTES, type Plan, SEED } from './plan.js';

/** The memory that a cache needs for a hit ratio: driven small, and carried over. */

const SMALLER = 10;

export async function measureCaches(context: BenchmarkContext, plan: Plan): Promise<void> {
  const { figures, print, progress } = context;
  const scales: Cell[][] = [];
  const needs: Cell[][] = [];
  for (const exponent of EXPONENTS) {
    progress(`the cache with Zipf ${exponent}`);
    const base = { exponent, warmUp: plan.warmUp, counted: plan.counted, seed: SEED };
    const small = await measureYields({ ...base, files: plan.cacheFiles / SMALLER });
    const large = await measureYields({ ...base, files: plan.cacheFiles });
    for (const [at, point] of large.entries()) {
      const { roomFiles, hitRatio } = point;
      const carried = hitRatioOf(roomFiles, {
        ...{ files: plan.cacheFiles, exponent, yield: small[at]!.yield },
      });
      figures.add(scalingId(exponent), 'share', Math.abs(carried - hitRatio));
      scales.push([
        `${exponent}, room for ${percent(roomFiles / plan.cacheFiles)}`,
        ...[small[at]!.hitRatio, hitRatio, carried].map(percent),
        ...[small[at]!.yield, point.yield].map(percent),
      ]);
    }
    for (const files of FILES) needs.push(memoryRow(context, files, exponent, large));
  }
  const [few, many] = [plan.cacheFiles / SMALLER, plan.cacheFiles].map(amount);
  print(
    `## The cache, driven\n\nThe cache of a gateway as the SDK opens it (a quarter is for files read along). *Yield*: files of a perfect cache that hits as often, over those that this one has room for. *Carried over*: the hit ratio of ${many} files from the yield that ${few} files had.\n\n${table(
      [
        'Zipf',
        `hits of ${few}`,
        `hits of ${many}`,
        'carried over',
        `yield, ${few}`,
        `yield, ${many}`,
      ],
      scales,
    )}`,
  );
  print(
    `## Memory for a hit ratio\n\nOf each gateway, if a balancer spreads reads over all of them. Files of ${MEAN_BYTES / 1024} KiB and ${ENTRY_BYTES} bytes beside; requests by Zipf's law over all files, which are always the same ones. With a balancer that hashes the path, all gateways together need this once.\n\n${table(
      ['Zipf and files', ...HIT_RATIOS.map((ratio) => percent(ratio))],
      needs,
    )}`,
  );
}

function memoryRow(
  { figures }: BenchmarkContext,
  files: number,
  exponent: number,
  yields: Yields,
): Cell[] {
  const { tableBytesPerFile } = yields.at(-1)!;
  const cells = HIT_RATIOS.map((ratio) => {
    const room = roomFor(ratio, { files, exponent, yields });
    const bytes = room * (MEAN_BYTES + ENTRY_BYTES + tableBytesPerFile);
    figures.add(`cache.zipf${exponent}.f${files}.h${100 * ratio}`, 'bytes', bytes);
    return bytesText(bytes);
  });
  return [`${exponent}, ${amount(files)}`, ...cells];
}

function percent(share: number): string {
  return `${(100 * share).toFixed(1)} %`;
}

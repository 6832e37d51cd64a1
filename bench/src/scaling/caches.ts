import type { BenchmarkContext } from '../harness/benchmark.js';
import { type Cell, table } from '../harness/markdown.js';
import { amount, bytesText, share } from './amounts.js';
import { ENTRY_BYTES, hitRatioOf, measureYields, roomFor } from './cache-model.js';
import { EXPONENTS, FILES, MEAN_BYTES, type Plan, SEED } from './plan.js';

/** The memory that a cache needs for a hit ratio: driven small, and carried over. */

const SMALLER = 10;
const HIT_RATIOS = [0.5, 0.8, 0.9, 0.95] as const;

export async function measureCaches(context: BenchmarkContext, plan: Plan): Promise<void> {
  const { figures, print, progress } = context;
  const { cacheFiles, warmUp, counted } = plan;
  const scales: Cell[][] = [];
  const needs: Cell[][] = [];
  for (const exponent of EXPONENTS) {
    progress(`the cache with Zipf ${exponent}`);
    const base = { exponent, warmUp, counted, seed: SEED };
    const small = await measureYields({ ...base, files: cacheFiles / SMALLER });
    const large = await measureYields({ ...base, files: cacheFiles });
    for (const [at, { roomFiles, hitRatio, yield: used }] of large.entries()) {
      const tenth = small[at]!;
      const carried = hitRatioOf(roomFiles, { files: cacheFiles, exponent, yield: tenth.yield });
      figures.add(`cache.zipf${exponent}.scaling`, 'share', Math.abs(carried - hitRatio));
      scales.push([
        `${exponent}, room for ${share(roomFiles / cacheFiles)}`,
        ...[tenth.hitRatio, hitRatio, carried, tenth.yield, used].map(share),
      ]);
    }
    const { tableBytesPerFile } = large.at(-1)!;
    for (const files of FILES) {
      const cells = HIT_RATIOS.map((ratio) => {
        const room = roomFor(ratio, { files, exponent, yields: large });
        const bytes = room * (MEAN_BYTES + ENTRY_BYTES + tableBytesPerFile);
        figures.add(`cache.zipf${exponent}.f${files}.h${100 * ratio}`, 'bytes', bytes);
        return bytesText(bytes);
      });
      needs.push([`${exponent}, ${amount(files)}`, ...cells]);
    }
  }
  const [few, many] = [cacheFiles / SMALLER, cacheFiles].map(amount);
  print(
    `## The cache, driven\n\nThe cache of a gateway as the SDK opens it (a quarter is for files read along). *Yield*: files of a perfect cache that hits as often, over those that this one has room for. *Carried over*: the hit ratio of ${many} files from the yield that ${few} files had.`,
  );
  const hits = [`hits of ${few}`, `hits of ${many}`, 'carried over'];
  context.table('cache', table(['Zipf', ...hits, `yield, ${few}`, `yield, ${many}`], scales));
  print(
    `## Memory for a hit ratio\n\nOf each gateway, if a balancer spreads reads over all of them. Files of ${MEAN_BYTES / 1024} KiB and ${ENTRY_BYTES} bytes beside; requests by Zipf's law over all files, which are always the same ones. With a balancer that hashes the path, all gateways together need this once.`,
  );
  context.table('memory', table(['Zipf and files', ...HIT_RATIOS.map(share)], needs));
}

import { atLeast, type Goal, leastOf, medianOf, over } from '../harness/goals.js';
import { figureId, type Series } from './measuring.js';
import { PAPER_KNEE_MEBIBYTES } from './paper.js';
import { type Plan, THREADS } from './plan.js';
import { DISKS, type DiskKind } from './settings.js';
import { sizeOf } from './sizes.js';

/** What the data node is to reach. Ratios are medians of the runs' own ratios. */

const MIN_GAIN = 1.5;
const MIN_USED_SHARE = 0.6;

export function throughputGoals(plan: Plan): readonly Goal[] {
  return DISKS.flatMap((disk) => [
    ...(['read', 'mixed'] as const).map((series) => gainGoal(plan, disk, series)),
    over(
      `read.${disk}.both.ahead.used`,
      `${disk} disk: over ${MIN_USED_SHARE * 100} % of the bytes read ahead are asked for`,
      MIN_USED_SHARE,
      medianOf(idOfBoth(disk, 'read', THREADS, 'ahead.used')),
    ),
    growthGoal(plan, disk),
  ]);
}

function gainGoal({ threads }: Plan, disk: DiskKind, series: 'read' | 'mixed'): Goal {
  const counts = threads.filter((count) => count >= THREADS);
  return atLeast(
    `${series}.${disk}.both.vs-neither`,
    `${series === 'read' ? 'reads' : '20 reads for a write'}, ${disk} disk: both at least ${MIN_GAIN} x neither, from ${THREADS} threads on (the least)`,
    MIN_GAIN,
    leastOf(counts.map((count) => idOfBoth(disk, series, count, 'vs-neither'))),
  );
}

function growthGoal({ cacheMebibytes }: Plan, disk: DiskKind): Goal {
  const last = cacheMebibytes.at(-1)!;
  const gain = (mebibytes: number) =>
    medianOf(
      figureId({ series: 'size', disk, setting: 'cache', at: sizeOf(mebibytes) }, 'vs-neither'),
    );
  return over(
    `size.${disk}.cache.growth`,
    `${disk} disk: the gain still grows past ${PAPER_KNEE_MEBIBYTES} MiB (gain at ${last} MiB as a multiple of that)`,
    1,
    (figures) => gain(last)(figures) / gain(PAPER_KNEE_MEBIBYTES)(figures),
  );
}

function idOfBoth(disk: DiskKind, series: Series, threads: number, what: string): string {
  return figureId({ series, disk, setting: 'both', at: `t${threads}` }, what);
}

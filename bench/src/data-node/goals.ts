import {
  atLeast,
  atMost,
  type Goal,
  greatestOf,
  leastOf,
  medianOf,
  over,
} from '../harness/goals.js';
import { figureId, type Series } from './measuring.js';
import { PAPER_KNEE_MEBIBYTES } from './paper.js';
import { type Plan, THREADS } from './plan.js';
import { DISKS, type DiskKind } from './settings.js';
import { sizeOf } from './sizes.js';

/** What the data node is to reach. Ratios are medians of the runs' own ratios. */

const MIN_GAIN = 1.5;
const MIN_USED_SHARE = 0.6;
const MIN_OVER_PAGES = 1;
const MAX_CPU = 1.1;

const LOADS = { read: 'reads', mixed: '20 reads for a write' } as const;

export function throughputGoals(plan: Plan): readonly Goal[] {
  const goals = DISKS.flatMap((disk) => [
    ...(['read', 'mixed'] as const).flatMap((series) => [
      gainGoal(plan, disk, series),
      overPagesGoal(plan, disk, series),
    ]),
    over(
      `read.${disk}.both.ahead.used`,
      `${disk} disk: over ${MIN_USED_SHARE * 100} % of the bytes read ahead are asked for`,
      MIN_USED_SHARE,
      medianOf(idOfBoth(disk, 'read', THREADS, 'ahead.used')),
    ),
    growthGoal(plan, disk),
  ]);
  return [...goals, cpuGoal(plan)];
}

function gainGoal(plan: Plan, disk: DiskKind, series: 'read' | 'mixed'): Goal {
  return atLeast(
    `${series}.${disk}.both.vs-neither`,
    `${LOADS[series]}, ${disk} disk: both at least ${MIN_GAIN} x neither, from ${THREADS} threads on (the least)`,
    MIN_GAIN,
    leastOf(manyThreads(plan).map((count) => idOfBoth(disk, series, count, 'vs-neither'))),
  );
}

function overPagesGoal(plan: Plan, disk: DiskKind, series: 'read' | 'mixed'): Goal {
  return atLeast(
    `${series}.${disk}.both.vs-page-cache`,
    `${LOADS[series]}, ${disk} disk: both at least ${MIN_OVER_PAGES} x the page cache of the same memory, from ${THREADS} threads on (the least)`,
    MIN_OVER_PAGES,
    leastOf(manyThreads(plan).map((count) => idOfBoth(disk, series, count, 'vs-page-cache'))),
  );
}

/** Where the disk is fast, the processor is what there is too little of. */
function cpuGoal(plan: Plan): Goal {
  const id = (count: number): string =>
    figureId(
      { series: 'read', disk: 'measured', setting: 'co-location', at: `t${count}` },
      'cpu-vs-neither',
    );
  return atMost(
    'read.measured.co-location.cpu-vs-neither',
    `reads, measured disk: CPU of the node for a read, co-location at most ${MAX_CPU} x neither, from ${THREADS} threads on (the greatest)`,
    MAX_CPU,
    greatestOf(manyThreads(plan).map(id)),
  );
}

function manyThreads({ threads }: Plan): readonly number[] {
  return threads.filter((count) => count >= THREADS);
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

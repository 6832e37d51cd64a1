import type { BenchmarkContext, Scale } from '../harness/benchmark.js';
import { Child } from '../harness/child.js';
import { atLeast, atMost, type Goal } from '../harness/goals.js';
import { table } from '../harness/markdown.js';
import type { MonthHandlers } from './month-process.js';
import { MONTH_SITES, type MonthSiteName } from './months.js';

/**
 * What it saves that the Merge Task knows more of a file than its size: when it expires, and its
 * group. One month of three sites whose files die, after four others, simulated with and without.
 */

export interface MonthPlan {
  /** Before the measured days: long enough that files are compacted a second time. */
  readonly daysBefore: number;
  readonly days: number;
  readonly perDay: number;
}

export const MONTHS: Readonly<Record<Scale, MonthPlan>> = {
  full: { daysBefore: 120, days: 30, perDay: 1_000 },
  quick: { daysBefore: 60, days: 30, perDay: 500 },
  smoke: { daysBefore: 1, days: 1, perDay: 200 },
};

const TRUNK_BYTES = 2 ** 21;
/** The mean file, of 2 to 20 KB. */
const MEAN_BYTES = 7_800;
/** A site as busy as one of 64 MiB trunks and a minute that stores two and a half of them in it. */
const TRUNKS_IN_MAX_AGE = 2.5;
const DAY_MS = 86_400_000;
const CALL_LIMIT_MS = 3_600_000;

function id(site: string, what: string): string {
  return `sites.${site}.${what}`;
}

export const SITE_GOALS: readonly Goal[] = Object.entries(MONTH_SITES).flatMap(
  ([site, { title }]) => [
    atLeast(
      id(site, 'saved'),
      `${title}: compaction rewrites at least 30 % less than by size alone`,
      30,
      (figures) => figures.summary(id(site, 'saved')).median,
    ),
    atMost(
      id(site, 'extents'),
      `${title}: a group is in no more pieces than by size alone`,
      1,
      (figures) => figures.summary(id(site, 'extents')).median,
    ),
  ],
);

export async function simulateSites(
  { workspace, figures, print, progress }: BenchmarkContext,
  { daysBefore, days, perDay }: MonthPlan,
): Promise<void> {
  const rows: (string | number)[][] = [];
  for (const [site, { title }] of Object.entries(MONTH_SITES)) {
    const simulate = async (tellsMore: boolean) => {
      progress(`${days} days of ${title}${tellsMore ? '' : ', by size alone'}`);
      const directory = workspace.fresh('month');
      const module = new URL('./month-process.js', import.meta.url);
      await using child = new Child<MonthHandlers>(site, module, { callLimitMs: CALL_LIMIT_MS });
      const trunksADay = (perDay * MEAN_BYTES) / TRUNK_BYTES;
      const mergeMaxAge = Math.round((TRUNKS_IN_MAX_AGE / trunksADay) * DAY_MS);
      const outcome = await child.call('simulateMonth', {
        ...{
          site: site as MonthSiteName,
          directory,
          daysBefore,
          days,
          perDay,
          mergeMaxAge,
          tellsMore,
        },
        trunkSize: TRUNK_BYTES,
      });
      await workspace.remove(directory);
      for (const error of outcome.errors) throw new Error(`${site}: ${error}`);
      return outcome;
    };
    const [alone, more] = [await simulate(false), await simulate(true)];
    const share = (outcome: typeof alone) => outcome.rewrittenBytes / outcome.uploadedBytes;
    const saved = 100 * (1 - more.rewrittenBytes / Math.max(1, alone.rewrittenBytes));
    figures.add(id(site, 'rewritten-by-size'), 'of uploaded', share(alone));
    figures.add(id(site, 'rewritten'), 'of uploaded', share(more));
    figures.add(id(site, 'saved'), 'percent', saved);
    figures.add(id(site, 'extents'), 'times', more.extentsOfGroup / alone.extentsOfGroup);
    rows.push([
      ...[title, share(alone), share(more), `${saved.toFixed(0)} %`],
      ...[`${(100 * alone.aliveShare).toFixed(0)} %`, `${(100 * more.aliveShare).toFixed(0)} %`],
      ...[alone.extentsOfGroup, more.extentsOfGroup],
    ]);
  }
  const head = [
    ...['Site', 'Rewritten by size alone, of uploaded', 'Rewritten', 'Saved'],
    ...['Alive in FastDFS by size alone', 'Alive', 'Pieces of a group by size alone', 'Pieces'],
  ];
  print(`## Months of sites whose files die\n\n${table(head, rows)}`);
}

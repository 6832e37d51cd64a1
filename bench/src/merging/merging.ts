import { type Benchmark, type BenchmarkContext, plans, type Scale } from '../harness/benchmark.js';
import { atLeast, atMost, type Goal, greatestOf, leastOf } from '../harness/goals.js';
import { settled } from '../harness/load.js';
import { middle, percent } from '../harness/markdown.js';
import { type Running, start } from '../harness/processes.js';
import {
  MONTH_SITES,
  type MonthSiteName,
  TRUNK_BYTES,
  WEEK_SITES,
  type WeekSiteName,
} from './sites.js';

/**
 * The Merge Task: what a week of a site makes of FastDFS; what it saves that it knows more of a
 * file than its size, when it expires and its group; and how fast a backlog of tiny files is merged.
 */

const WEEK_HOURS = 168;
type Hours = Readonly<Partial<Record<WeekSiteName, number>>>;
const FULL = {
  /** Hours of each site; of the fast one every hour is as the one before. */
  hours: {
    ...{ minute: WEEK_HOURS, 'ten-seconds': WEEK_HOURS, 'two-seconds': WEEK_HOURS },
    ...{ noon: WEEK_HOURS, fast: 0.5 },
  } as Hours,
  /** Days before the measured ones: long enough that files are compacted a second time. */
  daysBefore: 120,
  ...{ days: 30, perDay: 1_000 },
  /** Of the backlog. */
  files: 1_000_000,
};
type Plan = typeof FULL;
const PLANS = plans(
  FULL,
  {
    ...{ hours: { 'ten-seconds': 1, 'two-seconds': 4 } },
    ...{ daysBefore: 5, days: 5, perDay: 200, files: 200_000 },
  },
  { hours: { minute: 2, fast: 0.01 }, daysBefore: 1, days: 1, perDay: 60, files: 2_000 },
);

const MAX_AGE_MS = 60_000;
const CALL_LIMIT_MS = 3_600_000;
/** What looks at the disk every second has nothing to see; months would take hours otherwise. */
const INTERVALS_MS = { week: 10_000, month: 600_000 } as const;
const TINY_BYTES = 100;
const MIB = 2 ** 20;
/** No order of joining gives them both few files and three writes: staging/src/merge/joining.ts. */
const SLOWEST: ReadonlySet<string> = new Set<WeekSiteName>(['minute', 'ten-seconds']);
const MONTH_TRUNK_BYTES = 2 ** 21;
/** The mean file, of 2 to 20 KB. */
const MONTH_MEAN_BYTES = 7_800;
/** A site as busy as one of 64 MiB trunks and a minute that stores two and a half of them in it. */
const TRUNKS_IN_MAX_AGE = 2.5;
const DAY_MS = 86_400_000;

export const merging: Benchmark = {
  durability: 'os',
  introduce: () =>
    `Weeks and months are simulated: Staging with its container, FileMap and decisions is real, time is virtual, and FastDFS keeps sizes alone. Files are 2 to 100 KB, those of a month 2 to 20 KB, log-uniform.`,
  parts: (scale) => ({
    weeks: { goals: weekGoals(scale), run: (context) => simulateWeeks(context, PLANS[scale]) },
    sites: { goals: siteGoals(), run: (context) => simulateMonths(context, PLANS[scale]) },
    backlog: {
      goals: [
        atLeast('backlog.rate', 'files of 100 B: at least {} a second', 50_000),
        atMost('backlog.delay', 'event-loop delay, p99: at most {} ms', 20),
        atMost('backlog.memory', 'resident set: at most {} MiB', 300),
      ],
      run: (context) => mergeBacklog(context, PLANS[scale]),
    },
  }),
};

function weekGoals(scale: Scale): readonly Goal[] {
  const sites = Object.keys(PLANS[scale].hours);
  const ids = (what: string, of = sites) => of.map((site) => `week.${site}.${what}`);
  const written = ids(
    'written',
    sites.filter((site) => !SLOWEST.has(site)),
  );
  return [
    atMost(
      'week.excess',
      'files in FastDFS at the end: at most {} more than 1.1 x those that the bytes fill',
      20,
      greatestOf(ids('excess')),
    ),
    atLeast(
      'week.fill',
      'trunks that stay: at least {%} full, every one',
      0.999,
      leastOf(ids('least-fill')),
    ),
    atMost(
      'week.age',
      'every file is in FastDFS {} s after its upload',
      65,
      greatestOf(ids('most-age')),
    ),
    atMost(
      'week.written',
      'bytes written to FastDFS: at most {} x those uploaded, where a trunk fills in three hours',
      3,
      greatestOf(written),
    ),
  ];
}

/** Simulates in a process of its own, in a directory that goes again. */
async function simulated<T extends { readonly errors: readonly string[] }>(
  { workspace }: BenchmarkContext,
  intervalMs: number,
  simulate: (child: Running<'merging/site'>, directory: string) => Promise<T>,
): Promise<T> {
  const directory = workspace.fresh('site');
  await using child = start('merging/site', {
    callLimitMs: CALL_LIMIT_MS,
    env: { STEVEDORE_BENCH_INTERVAL_MS: String(intervalMs) },
  });
  const outcome = await simulate(child, directory);
  await workspace.remove(directory);
  for (const error of outcome.errors) throw new Error(error);
  return outcome;
}

async function simulateWeeks(context: BenchmarkContext, { hours }: Plan): Promise<void> {
  const { figures, print, table, progress } = context;
  const sites = Object.entries(hours) as [WeekSiteName, number][];
  for (const [site, forHours] of sites) {
    progress(`${forHours} hours of ${WEEK_SITES[site].title}`);
    const after = await simulated(context, INTERVALS_MS.week, (child, directory) =>
      child.call('simulateWeek', directory, site, forHours, MAX_AGE_MS),
    );
    const full = after.uploadedBytes / TRUNK_BYTES;
    figures.addAll(`week.${site}`, {
      hours: [forHours, 'h'],
      uploaded: [after.uploadedBytes / MIB, 'MiB'],
      full: [full, 'trunks'],
      alive: [after.alive, 'files'],
      'most-alive': [after.mostAlive, 'files'],
      excess: [after.alive - 1.1 * full, 'files'],
      'least-fill': [after.leastFill, 'share'],
      'most-age': [after.mostAge, 's'],
      'id-age': [after.medianIdAge / 3600, 'h'],
      written: [after.writtenBytes / after.uploadedBytes, 'times'],
    });
  }
  print('## Weeks');
  table('weeks', {
    head: 'Files',
    rows: sites.map(([site]) => [WEEK_SITES[site].title, `week.${site}`]),
    columns: [
      ['Hours', 'hours'],
      ['MiB uploaded', 'uploaded'],
      ['Trunks that they fill', 'full'],
      ['Files in FastDFS', 'alive'],
      ['At most', 'most-alive'],
      ['Least fill', 'least-fill', ({ median }) => `${(100 * median).toFixed(3)} %`],
      ['In FastDFS within, s', 'most-age'],
      ['Id after, h (median)', 'id-age'],
      ['Written, x', 'written'],
    ],
  });
}

function siteGoals(): readonly Goal[] {
  return Object.entries(MONTH_SITES).flatMap(([site, { title }]) => [
    atLeast(
      `sites.${site}.saved`,
      `${title}: compaction rewrites at least {%} less than by size alone`,
      0.3,
    ),
    atMost(`sites.${site}.extents`, `${title}: a group is in no more pieces than by size alone`, 1),
  ]);
}

/** One month of three sites whose files die, after others, with what the app tells and without. */
async function simulateMonths(context: BenchmarkContext, plan: Plan): Promise<void> {
  const { figures, print, table, progress } = context;
  const { daysBefore, days, perDay } = plan;
  const trunksADay = (perDay * MONTH_MEAN_BYTES) / MONTH_TRUNK_BYTES;
  const mergeMaxAge = Math.round((TRUNKS_IN_MAX_AGE / trunksADay) * DAY_MS);
  for (const site of Object.keys(MONTH_SITES) as MonthSiteName[]) {
    progress(`${days} days of ${MONTH_SITES[site].title}, and by size alone`);
    const simulate = (tellsMore: boolean) =>
      simulated(context, INTERVALS_MS.month, (child, directory) =>
        child.call('simulateMonth', directory, {
          ...{ site, daysBefore, days, perDay, mergeMaxAge, tellsMore },
          trunkSize: MONTH_TRUNK_BYTES,
        }),
      );
    // Side by side: their time is virtual.
    const outcomes = await settled([simulate(false), simulate(true)]);
    for (const [at, after] of outcomes.entries()) {
      figures.addAll(`sites.${site}.${['alone', 'more'][at]}`, {
        rewritten: [after.rewrittenBytes / after.uploadedBytes, 'of uploaded'],
        // So that a ratio says something where hardly anything was compacted.
        bytes: [Math.max(MONTH_TRUNK_BYTES, after.rewrittenBytes), 'bytes'],
        alive: [after.aliveShare, 'share'],
        extents: [after.extentsOfGroup, 'pieces'],
      });
    }
    const last = (what: string) => figures.last(`sites.${site}.${what}`);
    figures.add(`sites.${site}.saved`, 'share', 1 - last('more.bytes') / last('alone.bytes'));
    const [more, alone] = ['more', 'alone'].map((which) => `sites.${site}.${which}.extents`);
    figures.addRatio(`sites.${site}.extents`, more ?? '', alone ?? '');
  }
  print('## Months of sites whose files die');
  table('sites', {
    head: 'Site',
    rows: Object.entries(MONTH_SITES).map(([site, { title }]) => [title, `sites.${site}`]),
    columns: [
      ['Rewritten by size alone, of uploaded', 'alone.rewritten'],
      ['Rewritten', 'more.rewritten'],
      ['Saved', 'saved', percent],
      ['Alive in FastDFS by size alone', 'alone.alive', percent],
      ['Alive', 'more.alive', percent],
      ['Pieces of a group by size alone', 'alone.extents'],
      ['Pieces', 'more.extents'],
    ],
  });
}

async function mergeBacklog(context: BenchmarkContext, { files }: Plan): Promise<void> {
  const { workspace, figures, print, table, progress } = context;
  const directory = workspace.fresh('backlog');
  progress(`${files} files of ${TINY_BYTES} bytes`);
  {
    await using filler = start('staging/fill');
    await filler.call('stage', directory, files, TINY_BYTES);
  }
  await using child = start('staging/fill');
  const merged = await child.call('merge', directory, TRUNK_BYTES);
  figures.addAll('backlog', {
    rate: [files / merged.seconds, 'files/s'],
    cpu: [(merged.cpuSeconds / files) * 1e6, 'µs of CPU'],
    delay: [merged.delayP99Ms, 'ms'],
    'most-delay': [merged.mostDelayMs, 'ms'],
    memory: [merged.mostRssBytes / MIB, 'MiB'],
    trunks: [merged.trunks, 'trunks'],
  });
  print('## A backlog');
  table('backlog', {
    head: '',
    rows: [[`${files} files of ${TINY_BYTES} B`, 'backlog']],
    columns: [
      ['Files/s', 'rate', middle],
      ['CPU a file, µs', 'cpu'],
      ['Delay p99, ms', 'delay'],
      ['Most, ms', 'most-delay'],
      ['RSS, MiB', 'memory'],
      ['Trunks', 'trunks'],
    ],
  });
}

import {
  type Benchmark,
  type BenchmarkContext,
  remarkOn,
  type Scale,
} from '../harness/benchmark.js';
import { Child } from '../harness/child.js';
import { atLeast, atMost, type Goal, greatestOf, leastOf } from '../harness/goals.js';
import { table } from '../harness/markdown.js';
import type { RateHandlers } from './rate-process.js';
import { MONTHS, SITE_GOALS, simulateSites } from './site-months.js';
import { SITES, type SiteName, TRUNK_BYTES } from './sites.js';
import type { WeekHandlers } from './week-process.js';

/**
 * The Merge Task: what a week of a site makes of FastDFS, and how fast a backlog of tiny files is
 * merged.
 */
export const merging: Benchmark = {
  durability: 'os',
  introduce: ({ print, scale }) =>
    print(
      `Weeks are simulated${remarkOn(scale)}: Staging with its container, FileMap and decisions is real, time is virtual, and FastDFS keeps names alone. Files are 2 to 100 KB, log-uniform.`,
    ),
  parts: (scale) => ({
    weeks: { goals: weekGoals(scale), run: (context) => simulateWeeks(context, PLANS[scale]) },
    sites: { goals: SITE_GOALS, run: (context) => simulateSites(context, MONTHS[scale]) },
    backlog: { goals: BACKLOG_GOALS, run: (context) => mergeBacklog(context, PLANS[scale]) },
  }),
};

interface Plan {
  /** Hours of each site. */
  readonly hours: Readonly<Partial<Record<SiteName, number>>>;
  readonly files: number;
}

const WEEK_HOURS = 168;
const PLANS: Readonly<Record<Scale, Plan>> = {
  full: {
    hours: {
      minute: WEEK_HOURS,
      'ten-seconds': WEEK_HOURS,
      'two-seconds': WEEK_HOURS,
      noon: WEEK_HOURS,
      // Every hour is as the one before.
      fast: 0.5,
    },
    files: 1_000_000,
  },
  quick: { hours: { minute: 72, 'two-seconds': 12 }, files: 300_000 },
  smoke: { hours: { minute: 2, fast: 0.01 }, files: 5_000 },
};

const MAX_AGE_MS = 60_000;
const LIMIT_OF_A_WEEK_MS = 3_600_000;
const TINY_BYTES = 100;
const MIB = 2 ** 20;

/** No order of joining gives them both few files and three writes: docs/MERGING.md. */
const SLOWEST: ReadonlySet<string> = new Set<SiteName>(['minute', 'ten-seconds']);

function id(site: string, what: string): string {
  return `week.${site}.${what}`;
}

function weekGoals(scale: Scale): readonly Goal[] {
  const sites = Object.keys(PLANS[scale].hours);
  return [
    atMost(
      'week.excess',
      'files in FastDFS at the end: at most 20 more than 1.1 x those that the bytes fill',
      20,
      greatestOf(sites.map((site) => id(site, 'excess'))),
    ),
    atLeast(
      'week.fill',
      'trunks that stay: at least 99.9 % full, every one',
      0.999,
      leastOf(sites.map((site) => id(site, 'least-fill'))),
    ),
    atMost(
      'week.age',
      'every file is in FastDFS 65 s after its upload',
      65,
      greatestOf(sites.map((site) => id(site, 'most-age'))),
    ),
    atMost(
      'week.written',
      'bytes written to FastDFS: at most 3 x those uploaded, where a trunk fills in three hours',
      3,
      greatestOf(sites.filter((site) => !SLOWEST.has(site)).map((site) => id(site, 'written'))),
    ),
  ];
}

async function simulateWeeks(context: BenchmarkContext, { hours }: Plan): Promise<void> {
  const { workspace, figures, print, progress } = context;
  const rows: (string | number)[][] = [];
  for (const [site, forHours] of Object.entries(hours) as [SiteName, number][]) {
    progress(`${forHours} hours of ${SITES[site].title}`);
    const directory = workspace.fresh('week');
    const limit = { callLimitMs: LIMIT_OF_A_WEEK_MS };
    const module = new URL('./week-process.js', import.meta.url);
    await using child = new Child<WeekHandlers>(site, module, limit);
    const week = { site, directory, hours: forHours, mergeMaxAge: MAX_AGE_MS, joins: true };
    const after = await child.call('simulate', week);
    await workspace.remove(directory);
    for (const error of after.errors) throw new Error(`${site}: ${error}`);
    const written = after.writtenBytes / after.uploadedBytes;
    figures.add(id(site, 'alive'), 'files', after.alive);
    figures.add(
      id(site, 'excess'),
      'files',
      after.alive - (1.1 * after.uploadedBytes) / TRUNK_BYTES,
    );
    figures.add(id(site, 'least-fill'), 'share', after.leastFill);
    figures.add(id(site, 'most-age'), 's', after.mostAge);
    figures.add(id(site, 'written'), 'times', written);
    rows.push([
      SITES[site].title,
      forHours,
      after.uploadedBytes / MIB,
      after.uploadedBytes / TRUNK_BYTES,
      after.alive,
      after.mostAlive,
      `${(100 * after.leastFill).toFixed(3)} %`,
      after.mostAge,
      after.medianIdAge / 3600,
      written,
    ]);
  }
  const head = ['Files', 'Hours', 'MiB uploaded', 'Trunks that they fill', 'Files in FastDFS'];
  const more = [
    'At most',
    'Least fill',
    'In FastDFS within, s',
    'Id after, h (median)',
    'Written, x',
  ];
  print(`## Weeks\n\n${table([...head, ...more], rows)}`);
}

const BACKLOG_GOALS: readonly Goal[] = [
  atLeast('backlog.rate', 'files of 100 B: at least 50,000 a second', 50_000, one('rate')),
  atMost('backlog.delay', 'event-loop delay, p99: at most 20 ms', 20, one('delay')),
  atMost('backlog.memory', 'resident set: at most 300 MiB', 300, one('memory')),
];

function one(what: string): Goal['value'] {
  return (figures) => figures.summary(`backlog.${what}`).median;
}

async function mergeBacklog(context: BenchmarkContext, { files }: Plan): Promise<void> {
  const { workspace, figures, print, progress } = context;
  const directory = workspace.fresh('backlog');
  const module = new URL('./rate-process.js', import.meta.url);
  progress(`${files} files of ${TINY_BYTES} bytes`);
  {
    await using child = new Child<RateHandlers>('stage', module);
    await child.call('stage', { directory, files, bodyBytes: TINY_BYTES });
  }
  await using child = new Child<RateHandlers>('merge', module);
  const merged = await child.call('merge', directory);
  figures.add('backlog.rate', 'files/s', files / merged.seconds);
  figures.add('backlog.cpu', 'µs of CPU', (merged.cpuSeconds / files) * 1e6);
  figures.add('backlog.delay', 'ms', merged.delayP99Ms);
  figures.add('backlog.most-delay', 'ms', merged.mostDelayMs);
  figures.add('backlog.memory', 'MiB', merged.mostRssBytes / MIB);
  print(
    `## A backlog\n\n${table(
      ['', 'Files/s', 'CPU a file, µs', 'Delay p99, ms', 'Most, ms', 'RSS, MiB', 'Trunks'],
      [
        [
          `${files} files of ${TINY_BYTES} B`,
          files / merged.seconds,
          (merged.cpuSeconds / files) * 1e6,
          merged.delayP99Ms,
          merged.mostDelayMs,
          merged.mostRssBytes / MIB,
          merged.trunks,
        ],
      ],
    )}`,
  );
}

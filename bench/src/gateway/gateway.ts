import {
  type Benchmark,
  type BenchmarkContext,
  type Part,
  remarkOn,
  type Scale,
} from '../harness/benchmark.js';
import { atLeast, atMost, type Goal, medianOf } from '../harness/goals.js';
import { round, spread, table } from '../harness/markdown.js';
import { figureId, measure, READ } from './measure.js';
import {
  CONNECTIONS,
  GOAL_RATIO,
  type Kind,
  PLAIN_CPU_RATIO,
  PLAIN_DOWNLOAD_RATIO,
  PLAIN_UPLOAD_RATIO,
  PLANS,
  VARIANTS,
  ZIPF_EXPONENT,
} from './plan.js';

/** The gateway's HTTP beside a bare Fastify app that does the same work and checks nothing. */
export const gateway: Benchmark = {
  durability: 'sync: an upload is on the disk before it is acknowledged, in every variant',
  packages: ['autocannon', 'fastify'],
  introduce,
  parts: (scale) => ({
    upload: part(scale, ['upload']),
    download: part(scale, ['download', 'download-fresh', 'download-cold']),
    popular: part(scale, ['download-popular']),
    beyond: part(scale, ['download-beyond']),
  }),
};

function part(scale: Scale, kinds: readonly Kind[]): Part {
  return {
    goals: kinds.flatMap(goalsOf),
    run: async (context) => {
      await measure(context, PLANS[scale], kinds);
      for (const kind of kinds) show(context, kind);
    },
  };
}

function introduce({ print, scale }: BenchmarkContext): void {
  const plan = PLANS[scale];
  print(
    [
      `${plan.runs} runs${remarkOn(scale)} with new processes for uploads and for downloads; in a run every variant is measured ${plan.turns} times, in turns: for ${plan.seconds} s, or until ${plan.files} files have been read once each. Files of 20 KB over connections that are kept; each sends its next request when the last one is answered. The load is autocannon in a process of its own; every file that comes back is compared, and no two uploads have the same bytes.`,
      '*plain* is node:http with the same appends and syncs, and every file in a Map. *bare* is Fastify with bodies appended and synced in batches, a SQLite row for each, and files in memory to download. *gateway* is `stevedore gateway` with its defaults. *checked* has an API key with rate and quota, a policy with types, and first bytes held against them, for uploads; a signed URL for downloads. Nothing is merged meanwhile.',
    ].join('\n'),
  );
}

const TITLES: Readonly<Record<Kind, string>> = {
  upload: 'Durable uploads',
  download: 'Downloads, hot: the same files again and again',
  'download-fresh': 'Downloads, fresh: files that were just uploaded, for the first time',
  'download-cold':
    "Downloads, cold: for the first time since the gateway's start, from the system's page cache",
  'download-popular': `Downloads, popular: of files that were just uploaded, by Zipf's law with exponent ${ZIPF_EXPONENT}`,
  'download-beyond':
    'Downloads, beyond memory: in random order, with a cache for a tenth of the files',
};

function show({ figures, print }: BenchmarkContext, kind: Kind): void {
  const measured = CONNECTIONS[kind].flatMap((connections) =>
    VARIANTS.map((variant) => ({
      name: `${variant}, ${connections}`,
      variant,
      of: (what: string) => figures.summary(figureId(kind, variant, connections, what)),
      has: (what: string) => figures.has(figureId(kind, variant, connections, what)),
    })),
  );
  const rows = measured.map(({ name, variant, of, has }) => [
    name,
    spread(of('rate')),
    isOurs(variant) ? round(of('vs-plain').median) : '',
    isOurs(variant) ? round(of('vs-bare').median) : '',
    of('cpu-per-request').median,
    isOurs(variant) ? round(of('cpu-vs-plain').median) : '',
    isOurs(variant) ? round(of('per-cpu-vs-bare').median) : '',
    of('cpu').median,
    of('load-cpu').median,
    of('p50').median,
    of('p99').median,
    has(READ) ? of(READ).median : '',
  ]);
  const head = [
    'Server, connections',
    'requests/s',
    'to plain',
    'to bare',
    'us user+sys',
    'to plain',
    'per CPU s, to bare',
    'cores',
    'load, cores',
    'p50 ms',
    'p99 ms',
    'read, kB',
  ];
  print(`## ${TITLES[kind]}\n\n${table(head, rows)}`);
  const limited = measured.filter(({ of }) => of('load-cpu').median >= of('cpu').median);
  if (limited.length === 0) return;
  print(
    `autocannon took as much CPU as the server, or more, with ${limited.map(({ name }) => name).join('; ')}: there it is the load that limits the rate.`,
  );
}

function isOurs(variant: string): boolean {
  return variant === 'gateway' || variant === 'checked';
}

/** Fresh and cold files have no goal: the others have them in memory. */
function goalsOf(kind: Kind): readonly Goal[] {
  return [...plainGoals(kind), ...bareGoals(kind)];
}

function plainGoals(kind: Kind): readonly Goal[] {
  const rate = (connections: number, ratio: number) => {
    const id = figureId(kind, 'gateway', connections, 'vs-plain');
    const what = kind === 'upload' ? 'uploads' : 'downloads of popular files';
    const text = `${what} at ${connections} connections: at least ${ratio} x node:http`;
    return atLeast(id, text, ratio, medianOf(id));
  };
  if (kind === 'download-popular') {
    return CONNECTIONS[kind].map((connections) => rate(connections, PLAIN_DOWNLOAD_RATIO));
  }
  if (kind !== 'upload') return [];
  return CONNECTIONS[kind].flatMap((connections) => {
    const id = figureId(kind, 'gateway', connections, 'cpu-vs-plain');
    const text = `CPU of an upload at ${connections} connections: at most ${PLAIN_CPU_RATIO} x node:http`;
    return [
      ...(connections <= 20 ? [rate(connections, PLAIN_UPLOAD_RATIO)] : []),
      ...(connections >= 20 ? [atMost(id, text, PLAIN_CPU_RATIO, medianOf(id))] : []),
    ];
  });
}

function bareGoals(kind: Kind): readonly Goal[] {
  if (kind !== 'upload' && kind !== 'download') return [];
  return CONNECTIONS[kind].flatMap((connections) => {
    const goal = (what: string, unit: string) => {
      const id = figureId(kind, 'checked', connections, what);
      const text = `${kind}s at ${connections} connections, every check on: at least ${GOAL_RATIO} x the bare app${unit}`;
      return atLeast(id, text, GOAL_RATIO, medianOf(id));
    };
    const goals = [goal('vs-bare', '')];
    // Where the load limits the rates, all servers have the same.
    if (kind === 'download') goals.push(goal('per-cpu-vs-bare', ', per CPU second'));
    return goals;
  });
}

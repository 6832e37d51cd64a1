import { plans } from '../harness/benchmark.js';
import { logUniform } from '../harness/file-set.js';
import { atLeast, atMost, type Goal } from '../harness/goals.js';
import { SeededRandom } from '../harness/seeded-random.js';
import { Zipf } from '../harness/zipf.js';
import { type Content, LEAST_BYTES, MOST_BYTES, type Stored } from './content.js';
import type { OwnName } from './subjects.js';

/** What is asked of the servers, of which files, how long, and what is to be reached. */

const FULL = {
  /** Measurements of every server, in turns. */
  turns: 7,
  /** Of a measurement of downloads, and of uploads. */
  ...{ seconds: 2, uploadSeconds: 3, warmUpSeconds: 4 },
  /** Uploads before the first measurement: memory is then as it is after days. */
  uploadsBefore: 100_000,
  /** Files that are downloaded again and again, and those of which some are popular. */
  ...{ hotFiles: 1_000, files: 20_000 },
  /** Of hot files: connections meet other workers each time, so that all have all files in memory. */
  warmUpRounds: 12,
  /** Requests of one measurement, drawn beforehand. */
  requests: 40_000,
};
export const PLANS = plans(
  FULL,
  {
    ...{ turns: 2, seconds: 0.4, uploadSeconds: 0.5, warmUpSeconds: 0.5, uploadsBefore: 5_000 },
    ...{ hotFiles: 300, files: 2_000, requests: 10_000 },
  },
  {
    ...{ turns: 1, seconds: 0.05, uploadSeconds: 0.05, warmUpSeconds: 0.05, uploadsBefore: 50 },
    ...{ hotFiles: 100, files: 100, requests: 200, warmUpRounds: 1 },
  },
);
export type Plan = typeof FULL;

/**
 * hot: the same files again and again. popular: by Zipf's law. random: each as often as any other.
 * once: each once, and no file twice.
 */
type Order = 'hot' | 'popular' | 'random' | 'once';

export interface Scenario {
  readonly title: string;
  /** Undefined: uploads of 20 KB, each of other bytes. */
  readonly downloads?: Order;
  /** Merging runs during the measurement, as in production; CPU counts until FastDFS has the files. */
  readonly isMerging?: boolean;
  /** Before the measurements: `cache`: with room for a tenth of the files. */
  readonly restarts?: 'as-it-is' | 'cache';
  /** The first is what the others are compared with. */
  readonly own: readonly [OwnName, ...OwnName[]];
  /** Servers that were named take part. */
  readonly isOpen: boolean;
  readonly connections: readonly number[];
  /** Of the second to the first: at least that rate, at most that CPU, with so many connections. */
  readonly goals?: Partial<
    Record<'rate' | 'cpu', readonly [bound: number, connections: readonly number[]]>
  >;
}

const OF_OURS = ['plain', 'gateway', 'checked'] as const;
const ALL = [1, 20, 100];
const WORKERS = {
  ...{ own: ['one', 'two'], isOpen: false, connections: [64] },
  // The load leaves room for it.
  goals: { rate: [1.5, [64]], cpu: [1.15, [64]] },
} as const satisfies Partial<Scenario>;

export const SCENARIOS = {
  stored: {
    title: 'Durable uploads of 20 KB, merged meanwhile and stored in FastDFS',
    ...{ isMerging: true, own: ['plain', 'gateway'], isOpen: true, connections: ALL },
    goals: { rate: [0.8, ALL], cpu: [1.5, [20, 100]] },
  },
  upload: {
    title: 'Durable uploads of 20 KB, merged later',
    ...{ own: OF_OURS, isOpen: false, connections: ALL },
    goals: { rate: [0.95, [1, 20]], cpu: [1.4, [20, 100]] },
  },
  hot: {
    title: 'Downloads, hot: the same files again and again',
    ...{ downloads: 'hot', own: OF_OURS, isOpen: false, connections: [20, 100] },
  },
  popular: {
    title: "Downloads, popular: of files that were just uploaded, by Zipf's law (0.9)",
    ...{ downloads: 'popular', isMerging: true, own: ['plain', 'gateway'], isOpen: true },
    connections: ALL,
    goals: { rate: [1, [20, 100]] },
  },
  cold: {
    title: "Downloads, cold: each file once since the gateway's start, from the page cache",
    ...{ downloads: 'once', restarts: 'as-it-is', own: ['plain', 'gateway'], isOpen: false },
    connections: [20],
  },
  beyond: {
    title: 'Downloads, beyond memory: in random order, the gateway with a cache for a tenth',
    ...{ downloads: 'random', restarts: 'cache', own: ['plain', 'gateway'], isOpen: true },
    connections: [20, 100],
  },
  'workers-upload': { title: 'Uploads, two workers', ...WORKERS },
  'workers-download': { title: 'Downloads, two workers', downloads: 'hot', ...WORKERS },
} as const satisfies Readonly<Record<string, Scenario>>;

export type ScenarioName = keyof typeof SCENARIOS;

export function figureId(
  scenario: string,
  server: string,
  connections: number,
  what: string,
): string {
  return `${scenario}.${server}.c${connections}.${what}`;
}

export function goalsOf(name: ScenarioName): readonly Goal[] {
  const { title, own, goals = {} }: Scenario = SCENARIOS[name];
  const to = own[0] === 'plain' ? 'node:http' : 'one process';
  return Object.entries(goals).flatMap(([what, [bound, connections]]) =>
    connections.map((count) => {
      const id = figureId(name, own[1] ?? own[0], count, `${what}-ratio`);
      const text = `${title}, ${count} connections:`;
      return what === 'rate'
        ? atLeast(id, `${text} at least {} x ${to}`, bound)
        : atMost(id, `${text} at most {} x the CPU of ${to}`, bound);
    }),
  );
}

const ZIPF_EXPONENT = 0.9;
const MEAN_BYTES = (MOST_BYTES - LEAST_BYTES) / Math.log(MOST_BYTES / LEAST_BYTES);
const CACHE_SHARE = 0.1;

export function cacheBytesFor(files: number): number {
  return Math.floor(files * MEAN_BYTES * CACHE_SHARE);
}

/** 2 to 100 KB, as many of each order of size; the same ones for every server. */
export function contents(count: number): readonly Content[] {
  const { next } = new SeededRandom(11);
  return Array.from({ length: count }, (_, number) => ({
    number,
    bytes: logUniform(next, LEAST_BYTES, MOST_BYTES),
  }));
}

const random = new SeededRandom(18);

/** The requests of one measurement. */
export function drawn(
  files: readonly Stored[],
  order: Order,
  turn: number,
  { hotFiles, requests }: Plan,
): readonly Stored[] {
  switch (order) {
    case 'hot':
      return files;
    case 'once':
      return files.slice(turn * hotFiles, (turn + 1) * hotFiles);
    case 'random':
      return Array.from({ length: requests }, () => files[random.below(files.length)]!);
    case 'popular': {
      const zipf = new Zipf(files.length, ZIPF_EXPONENT, random.next);
      return Array.from({ length: requests }, () => files[zipf.next() - 1]!);
    }
  }
}

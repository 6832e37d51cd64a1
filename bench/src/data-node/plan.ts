import type { StorageOptions } from '@stevedore/node';
import { plans } from '../harness/benchmark.js';

/** How much is measured, and the settings that are compared. */

const FULL = {
  /** Of the model, with seeds of their own; and of what is measured on this machine. */
  ...{ modelRuns: 1, runs: 5 },
  /** Look-ups of one run, for each variant. */
  lookUps: 2_000_000,
  /** Bytes of the files on one node. */
  dataBytes: 200e6,
  /** Requests before a node with the usual cache is measured, so that its cache is what it will be. */
  warmUpRequests: 6_000,
  /** How long one load lasts: in the time of the model, and on this machine. */
  seconds: { model: 3, measured: 2 },
  threads: [1, 2, 4, 8, 16, 32, 64, 100, 200],
  cacheMebibytes: [16, 32, 64, 128, 256],
  nodes: [1, 2, 4],
};
export const PLANS = plans(
  FULL,
  {
    ...{ runs: 2, lookUps: 100_000, dataBytes: 150e6, warmUpRequests: 3_000 },
    ...{ seconds: { model: 2, measured: 0.5 }, threads: [1, 16, 200] },
    ...{ cacheMebibytes: [16, 64, 128], nodes: [1, 2] },
  },
  {
    ...{ runs: 1, lookUps: 20_000, dataBytes: 4e6, warmUpRequests: 100 },
    ...{ seconds: { model: 0.2, measured: 0.05 }, threads: [16], cacheMebibytes: [64, 128] },
    nodes: [1],
  },
);
export type Plan = typeof FULL;

export const SEED = 9;
/** Threads where the number of threads is not what is varied. */
export const THREADS = 16;
export const MIB = 2 ** 20;
/** The memory where its size is not what is varied. */
export const MEMORY_BYTES = 64 * MIB;
/** Room for what a group's read brings along, where there is no cache. */
const AHEAD_BUFFER_BYTES = 8 * MIB;

/**
 * What a page cache fetches at once: the system's default read-ahead, the block of the paper's figure
 * 1; or the pages that were asked for, as Linux does for a file that is read at random places.
 */
const BLOCK_BYTES = 128 * 1024;
const PAGE_BYTES = 4096;

/**
 * scattered: no file's group is known, and they come in any order. co-located: `put({ group })`,
 * packed by the Merge Task. direct: `put({ group, mode: 'direct' })`.
 */
export const LAYOUTS = ['scattered', 'co-located', 'direct'] as const;
export type Layout = (typeof LAYOUTS)[number];

export interface NodeOptions
  extends Required<
    Pick<StorageOptions, 'cacheBytes' | 'cachePolicy' | 'readAheadBytes' | 'readAheadShare'>
  > {
  /** Of the page cache below the storage; 0: none. */
  readonly pageCacheBytes: number;
  readonly fetchBytes: number;
}

interface SettingPlan {
  readonly title: string;
  readonly layout: Layout;
  /** What is done with so much memory. */
  readonly options: (bytes: number) => NodeOptions;
}

const pages = (bytes: number, fetchBytes = BLOCK_BYTES): NodeOptions => ({
  ...{ cacheBytes: 0, cachePolicy: 'lru', readAheadBytes: 0, readAheadShare: 0.25 },
  ...{ pageCacheBytes: bytes, fetchBytes },
});
const cached = (cacheBytes: number, cachePolicy: 'lru' | 'admission'): NodeOptions => ({
  ...{ ...pages(0), cacheBytes, cachePolicy },
});

/** The paper's four settings of a data node, and ours. All have the same memory. */
export const SETTINGS = {
  neither: { title: 'neither', layout: 'scattered', options: pages },
  cache: { title: 'cache', layout: 'scattered', options: (bytes) => cached(bytes, 'lru') },
  placement: { title: 'co-location', layout: 'co-located', options: pages },
  both: { title: 'both', layout: 'co-located', options: (bytes) => cached(bytes, 'lru') },
  'neither-pages': {
    title: 'neither, pages',
    layout: 'scattered',
    options: (bytes) => pages(bytes, PAGE_BYTES),
  },
  admission: {
    title: 'cache, ours',
    layout: 'scattered',
    options: (bytes) => cached(bytes, 'admission'),
  },
  ahead: {
    title: 'co-location, ours',
    layout: 'co-located',
    options: (bytes) => {
      // What was read along has to be somewhere until it is asked for; nothing else is kept there.
      const cacheBytes = Math.min(AHEAD_BUFFER_BYTES, bytes);
      const ahead = { cacheBytes, readAheadBytes: MIB, readAheadShare: 1 };
      return { ...pages(bytes - cacheBytes), ...ahead, cachePolicy: 'admission' };
    },
  },
  ours: {
    title: 'both, ours',
    layout: 'co-located',
    options: (bytes) => ({ ...cached(bytes, 'admission'), readAheadBytes: MIB }),
  },
  direct: {
    title: 'both, ours, direct',
    layout: 'direct',
    options: (bytes) => ({ ...cached(bytes, 'admission'), readAheadBytes: MIB }),
  },
} as const satisfies Readonly<Record<string, SettingPlan>>;
export type Setting = keyof typeof SETTINGS;
export const SETTING_NAMES = Object.keys(SETTINGS) as Setting[];

/**
 * What the data node paper says of its figures 6 to 9: gains over neither, in percent. It prints no
 * tables. 20 machines with a 7,200 rpm disk each, files of 20 KB, 2 TB.
 */
export const PAPER_GAINS = {
  read: ['17 to 35', '10 to 20', '20 to 49'],
  mixed: ['nearly as reads', 'nearly as reads', 'nearly as reads'],
  nodes: ['35', '20', '50'],
} as const;
/** Their lower ends. */
export const MIN_GAINS = { cache: 1.17, placement: 1.1, both: 1.2 } as const;

/** From here on the paper's gain grows much slower: its list is searched from end to end. */
export const PAPER_KNEE_MEBIBYTES = 64;

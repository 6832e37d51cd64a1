import type { StorageOptions } from '@stevedore/node';
import { plans } from '../harness/benchmark.js';

/** How much is measured, and the settings that are compared. */

const FULL = {
  runs: 5,
  /** Look-ups of one run, for each variant. */
  lookUps: 2_000_000,
  /** Bytes of the files on one node. */
  dataBytes: 1e9,
  /** Requests before a node is measured, so that its cache is what it will be. */
  warmUpRequests: 30_000,
  /** How long one load lasts. */
  seconds: { measured: 1, slowed: 2 },
  threads: [1, 2, 4, 8, 16, 32, 64],
  cacheMebibytes: [8, 16, 32, 64, 128, 256],
  nodes: [1, 2, 3, 4],
};
export const PLANS = plans(
  FULL,
  {
    ...{ runs: 2, lookUps: 300_000, dataBytes: 200e6, warmUpRequests: 4_000, threads: [16] },
    ...{ seconds: { measured: 0.3, slowed: 0.6 }, cacheMebibytes: [64, 128], nodes: [1] },
  },
  {
    ...{ runs: 1, lookUps: 20_000, dataBytes: 10e6, warmUpRequests: 300, threads: [16] },
    ...{ seconds: { measured: 0.05, slowed: 0.1 }, cacheMebibytes: [64, 128], nodes: [1] },
  },
);
export type Plan = typeof FULL;

export const SEED = 9;
/** Threads where the number of threads is not what is varied. */
export const THREADS = 16;
const MIB = 2 ** 20;
/** The cache where its size is not what is varied. */
export const CACHE_BYTES = 64 * MIB;
/** Room for what co-location reads along, where there is no cache. */
const AHEAD_BUFFER_BYTES = 8 * MIB;
export const TRUNK_BYTES = 64 * MIB;

/**
 * The paper's four settings of a data node, `both` once through the Merge Task and once through the
 * paper's buffer of 4 MB. All have the same memory: what is no cache of files is page cache.
 */
export const SETTING_NAMES = ['neither', 'cache', 'co-location', 'both', 'direct'] as const;
export type Setting = (typeof SETTING_NAMES)[number];

/**
 * scattered: no file's group is known, and they come in any order. co-located: `put({ group })`,
 * packed by the Merge Task. direct: `put({ group, mode: 'direct' })`.
 */
export const LAYOUTS = ['scattered', 'co-located', 'direct'] as const;
export type Layout = (typeof LAYOUTS)[number];

/** measured: this machine's disk, past the page cache. slowed: the same with the delay model. */
export const DISKS = ['measured', 'slowed'] as const;
export type DiskKind = (typeof DISKS)[number];

export interface CacheOptions
  extends Required<Pick<StorageOptions, 'cacheBytes' | 'readAheadBytes' | 'readAheadShare'>> {
  /** Of the page cache below the storage; 0: none. */
  readonly pageCacheBytes: number;
}

const NONE = { cacheBytes: 0, readAheadBytes: 0, readAheadShare: 0.25, pageCacheBytes: 0 };
const READS_AHEAD = { readAheadBytes: MIB };

/** How its files lie, and what is done with so much memory. */
export const SETTINGS: Readonly<
  Record<Setting, { readonly layout: Layout; readonly cache: (bytes: number) => CacheOptions }>
> = {
  neither: { layout: 'scattered', cache: (bytes) => ({ ...NONE, pageCacheBytes: bytes }) },
  cache: { layout: 'scattered', cache: (bytes) => ({ ...NONE, cacheBytes: bytes }) },
  'co-location': {
    layout: 'co-located',
    cache: (bytes) => {
      // What was read along has to be somewhere until it is asked for; nothing else is kept there.
      const cacheBytes = Math.min(AHEAD_BUFFER_BYTES, bytes);
      return { cacheBytes, ...READS_AHEAD, readAheadShare: 1, pageCacheBytes: bytes - cacheBytes };
    },
  },
  both: {
    layout: 'co-located',
    cache: (bytes) => ({ ...NONE, ...READS_AHEAD, cacheBytes: bytes }),
  },
  direct: { layout: 'direct', cache: (bytes) => ({ ...NONE, ...READS_AHEAD, cacheBytes: bytes }) },
};

/**
 * What the data node paper says of its figures 6 to 9: gains over neither, in percent, in the
 * order of the settings. It prints no tables. 20 machines with a 7,200 rpm disk each, files of
 * 20 KB, 2 TB.
 */
export const PAPER_GAINS = {
  read: ['17 to 35', '10 to 20', '20 to 49', '20 to 49'],
  mixed: ['nearly as reads', 'nearly as reads', 'nearly as reads', 'nearly as reads'],
  nodes: ['35', '20', '50', '50'],
} as const;

/** From here on the paper's gain grows much slower: its list is searched from end to end. */
export const PAPER_KNEE_MEBIBYTES = 64;

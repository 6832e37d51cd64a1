import type { StorageOptions } from '@stevedore/node';
import type { Scale } from '../harness/benchmark.js';

/** How much is measured, and the settings that are compared. */

export interface Plan {
  readonly runs: number;
  /** Look-ups of one run, for each variant. */
  readonly lookUps: number;
  /** Bytes of the files on one node. */
  readonly dataBytes: number;
  /** Requests before a node is measured, so that its cache is what it will be. */
  readonly warmUpRequests: number;
  /** How long one load lasts. */
  readonly seconds: Readonly<Record<DiskKind, number>>;
  readonly threads: readonly number[];
  readonly cacheMebibytes: readonly number[];
  readonly nodes: readonly number[];
}

export const PLANS: Readonly<Record<Scale, Plan>> = {
  full: {
    ...{ runs: 5, lookUps: 2_000_000, dataBytes: 1e9, warmUpRequests: 30_000 },
    seconds: { measured: 1, slowed: 2 },
    threads: [1, 2, 4, 8, 16, 32, 64],
    cacheMebibytes: [8, 16, 32, 64, 128, 256],
    nodes: [1, 2, 3, 4],
  },
  quick: {
    ...{ runs: 3, lookUps: 300_000, dataBytes: 200e6, warmUpRequests: 5_000 },
    seconds: { measured: 0.4, slowed: 0.8 },
    threads: [1, 16],
    cacheMebibytes: [64, 128],
    nodes: [1, 2],
  },
  smoke: {
    ...{ runs: 1, lookUps: 20_000, dataBytes: 10e6, warmUpRequests: 300 },
    seconds: { measured: 0.05, slowed: 0.1 },
    threads: [16],
    cacheMebibytes: [64, 128],
    nodes: [1],
  },
};

export const SEED = 9;
/** Threads where the number of threads is not what is varied. */
export const THREADS = 16;
const MIB = 2 ** 20;
/** The cache where its size is not what is varied. */
export const CACHE_BYTES = 64 * MIB;
/** Room for what co-location reads along, where there is no cache. */
const AHEAD_BUFFER_BYTES = 8 * MIB;
const READ_AHEAD_BYTES = MIB;
export const TRUNK_BYTES = 64 * MIB;

/**
 * The paper's four settings of a data node, `both` once through the Merge Task and once through the
 * paper's buffer of 4 MB. All have the same memory: what is no cache of files is page cache.
 */
export const SETTINGS = ['neither', 'cache', 'co-location', 'both', 'direct'] as const;
export type Setting = (typeof SETTINGS)[number];

/**
 * scattered: no file's group is known, and they come in any order. co-located: `put({ group })`,
 * packed by the Merge Task. direct: `put({ group, mode: 'direct' })`.
 */
export const LAYOUTS = ['scattered', 'co-located', 'direct'] as const;
export type Layout = (typeof LAYOUTS)[number];

/** measured: this machine's disk, past the page cache. slowed: the same with the delay model. */
export const DISKS = ['measured', 'slowed'] as const;
export type DiskKind = (typeof DISKS)[number];

export function layoutOf(setting: Setting): Layout {
  if (setting === 'direct') return 'direct';
  return setting === 'co-location' || setting === 'both' ? 'co-located' : 'scattered';
}

export interface CacheOptions
  extends Required<Pick<StorageOptions, 'cacheBytes' | 'readAheadBytes' | 'readAheadShare'>> {
  /** Of the page cache below the storage; 0: none. */
  readonly pageCacheBytes: number;
}

export function cacheOptionsOf(setting: Setting, cacheBytes = CACHE_BYTES): CacheOptions {
  const none = { cacheBytes: 0, readAheadBytes: 0, readAheadShare: 0.25, pageCacheBytes: 0 };
  const readAheadBytes = READ_AHEAD_BYTES;
  switch (setting) {
    case 'neither':
      return { ...none, pageCacheBytes: cacheBytes };
    case 'cache':
      return { ...none, cacheBytes };
    case 'co-location': {
      // What was read along has to be somewhere until it is asked for; nothing else is kept there.
      const aheadBytes = Math.min(AHEAD_BUFFER_BYTES, cacheBytes);
      const pageCacheBytes = cacheBytes - aheadBytes;
      return { cacheBytes: aheadBytes, readAheadBytes, readAheadShare: 1, pageCacheBytes };
    }
    case 'both':
    case 'direct':
      return { ...none, cacheBytes, readAheadBytes };
  }
}

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

import type { Scale } from '../harness/benchmark.js';
import type { NamedServer } from '../servers/kinds.js';

/** How much is measured, of which files, and where. */

/**
 * `ours`: a tracker and storages of Stevedore's on this machine. `fastdfs`, `fastdfs-trunk`: the
 * clusters named, without and with FastDFS's own merging.
 */
export type Where = 'ours' | 'fastdfs' | 'fastdfs-trunk';

/** Undefined: such a cluster is not named. */
export function trackersOf(where: Where, servers: readonly NamedServer[]): string[] | undefined {
  const named = servers.filter(({ kind }) => kind === where).map(({ address }) => address);
  return named.length > 0 ? named : undefined;
}

export interface Files {
  readonly minBytes: number;
  readonly maxBytes: number;
  /** How sizes are spread; `inverse`: ten times the size is ten times as rare. */
  readonly sizes: 'log-uniform' | 'inverse';
}

/** A table of uploads. */
export interface WriteSeries {
  readonly id: string;
  readonly title: string;
  readonly files: Files;
  /** Of our own group. */
  readonly storages: number;
  readonly concurrencies: readonly number[];
  readonly runs: number;
  /** Files that every writing variant begins to store, in the same order. */
  readonly bytes: number;
  /**
   * Uploads one by one are steady: they stop after so long, the others at the end of the set.
   * Undefined: at the end, too.
   */
  readonly directSeconds: number | undefined;
}

export interface Plan {
  readonly writeSeries: readonly WriteSeries[];
  readonly runs: number;
  readonly fetchBytes: number;
  readonly fetchSeconds: number;
  /** Stored, or fetched, before the clock starts: code is compiled, connections are open. */
  readonly warmUpFiles: number;
  readonly warmUpSeconds: number;
  readonly packings: number;
  /** Calls that do nothing, to learn what the load costs. */
  readonly costOperations: number;
}

const MB = 1e6;

export const SMALL: Files = { minBytes: 2_000, maxBytes: 100_000, sizes: 'log-uniform' };
/** "A few KB to 100 MB": most files are small, most bytes are in large ones. */
const MIXED: Files = { minBytes: 2_000, maxBytes: 100 * MB, sizes: 'inverse' };

interface Extent {
  readonly concurrencies: readonly number[];
  readonly fewer: readonly number[];
  readonly runs: number;
  readonly bytes: number;
  readonly mixedBytes: number;
  readonly directSeconds: number;
}

function seriesOf(extent: Extent): readonly WriteSeries[] {
  const { concurrencies, fewer, runs, bytes, mixedBytes, directSeconds } = extent;
  const small = { files: SMALL, bytes, directSeconds };
  return [
    {
      ...{ id: 'small', title: 'Files of 2 to 100 KB, one storage', storages: 1 },
      ...{ ...small, concurrencies, runs },
    },
    {
      ...{ id: 'two', title: 'Files of 2 to 100 KB, two storages of ours', storages: 2 },
      ...{ ...small, concurrencies: fewer, runs: Math.ceil(runs / 2) },
    },
    {
      ...{ id: 'mixed', title: 'Files of 2 KB to 100 MB, one storage', storages: 1 },
      ...{ files: MIXED, bytes: mixedBytes, directSeconds: undefined },
      ...{ concurrencies: fewer, runs: Math.ceil(runs / 2) },
    },
  ];
}

const WRITE_CONCURRENCIES = [1, 5, 20, 50, 100, 200];

export const PLANS: Readonly<Record<Scale, Plan>> = {
  full: {
    writeSeries: seriesOf({
      ...{ concurrencies: WRITE_CONCURRENCIES, fewer: [1, 20, 200], runs: 5 },
      ...{ bytes: 280 * MB, mixedBytes: 600 * MB, directSeconds: 3 },
    }),
    runs: 5,
    fetchBytes: 280 * MB,
    fetchSeconds: 1.5,
    warmUpFiles: 400,
    warmUpSeconds: 1,
    packings: 100,
    costOperations: 200_000,
  },
  quick: {
    writeSeries: seriesOf({
      ...{ concurrencies: WRITE_CONCURRENCIES, fewer: [1, 20, 200], runs: 3 },
      ...{ bytes: 140 * MB, mixedBytes: 300 * MB, directSeconds: 1 },
    }),
    runs: 3,
    fetchBytes: 140 * MB,
    fetchSeconds: 0.5,
    warmUpFiles: 200,
    warmUpSeconds: 0.3,
    packings: 20,
    costOperations: 200_000,
  },
  smoke: {
    writeSeries: seriesOf({
      ...{ concurrencies: [1, 200], fewer: [1, 20], runs: 1 },
      ...{ bytes: MB, mixedBytes: MB, directSeconds: 0.05 },
    }),
    runs: 1,
    fetchBytes: 2 * MB,
    fetchSeconds: 0.05,
    warmUpFiles: 5,
    warmUpSeconds: 0.05,
    packings: 2,
    costOperations: 1_000,
  },
};

export const SEED = 20;
/** What a store keeps on its own disk beside files is less. */
export const OWN_BYTES = 2 ** 18;

import type { Transfer } from '../client/storing-process.js';
import { plans } from '../harness/benchmark.js';
import type { Wire } from '../harness/wire.js';
import { type NamedServer, trackersOf } from '../servers/kinds.js';

/** How much is measured, of which files, and where; and what the paper measured. */

/**
 * `ours`: a tracker and storages of Stevedore's on this machine. `fastdfs`, `fastdfs-trunk`: the
 * clusters named, without and with FastDFS's own merging.
 */
export type Where = 'ours' | 'fastdfs' | 'fastdfs-trunk';

export function isThere(where: Where, servers: readonly NamedServer[]): boolean {
  return where === 'ours' || trackersOf(where, servers) !== undefined;
}

export interface Files {
  readonly minBytes: number;
  readonly maxBytes: number;
  /** How sizes are spread; `inverse`: ten times the size is ten times as rare. */
  readonly sizes: 'log-uniform' | 'inverse';
}

/** A table of uploads. */
export type WriteSeries = ReturnType<typeof seriesOf>[number];

const MB = 1e6;
export const CONCURRENCIES: readonly number[] = [1, 5, 20, 50, 100, 200];
export const FETCH_CONCURRENCIES = [20, 50, 100, 200] as const;

const FULL = {
  ...{ runs: 5, concurrencies: CONCURRENCIES, bytes: 280 * MB, mixedBytes: 600 * MB },
  /** Concurrencies of the series that is not the paper's table, and over a wire. */
  ...{ fewer: [1, 20, 200], wired: [1, 2, 5, 20, 100] },
  /** Stored over a wire: several trunks, or the first is only made at the end. */
  wireBytes: 280 * MB,
  ...{ directSeconds: 3, fetchSeconds: 1.5, packings: 100 },
  /** Stored, or fetched, before the clock starts: code is compiled, connections are open. */
  ...{ warmUpFiles: 400, warmUpSeconds: 1 },
  /** Calls that do nothing, to learn what the load costs. */
  costOperations: 200_000,
};
export const PLANS = plans(
  FULL,
  {
    ...{ runs: 1, concurrencies: [1, 20, 200], fewer: [1, 200], wired: [1, 5, 20] },
    wireBytes: 150 * MB,
    ...{ bytes: 100 * MB, mixedBytes: 25 * MB, directSeconds: 0.3, fetchSeconds: 0.2 },
    ...{ warmUpFiles: 100, warmUpSeconds: 0.2, packings: 5, costOperations: 50_000 },
  },
  {
    ...{ runs: 1, concurrencies: [1, 200], fewer: [20], bytes: MB, mixedBytes: MB },
    ...{ wired: [20], wireBytes: MB },
    ...{ directSeconds: 0.05, fetchSeconds: 0.05, warmUpFiles: 5, warmUpSeconds: 0.05 },
    ...{ packings: 2, costOperations: 1_000 },
  },
);
export type Plan = typeof FULL;

export const SMALL: Files = { minBytes: 2_000, maxBytes: 100_000, sizes: 'log-uniform' };
/** "A few KB to 100 MB": most files are small, most bytes are in large ones. */
const MIXED: Files = { minBytes: 2_000, maxBytes: 100 * MB, sizes: 'inverse' };

/** Between the web server and the storages, each way. */
export const WIRES = {
  '1g': { title: '0.2 ms and 1 Gbit/s', delayMs: 0.2, bytesPerSecond: 125 * MB },
  '100m': { title: '0.5 ms and 100 Mbit/s', delayMs: 0.5, bytesPerSecond: 12.5 * MB },
} as const;
export type WireName = keyof typeof WIRES;
export const WIRE_NAMES = Object.keys(WIRES) as WireName[];

export function seriesOf({ runs, fewer, wired, bytes, directSeconds, ...plan }: Plan) {
  const small = {
    files: SMALL,
    /** That every writing variant begins to store, in the same order. */
    bytes,
    /**
     * Uploads one by one are steady: they stop after so long, the others at the end of the set.
     * Undefined: at the end, too.
     */
    directSeconds: directSeconds as number | undefined,
    wire: undefined as Wire | undefined,
  };
  const mixed = { files: MIXED, bytes: plan.mixedBytes, directSeconds: undefined };
  const title = 'Files of 2 to 100 KB';
  return [
    { ...small, id: 'small', title, concurrencies: plan.concurrencies, runs },
    {
      ...{ ...small, ...mixed, id: 'mixed', title: 'Files of 2 KB to 100 MB' },
      ...{ concurrencies: fewer, runs: Math.ceil(runs / 2) },
    },
    ...WIRE_NAMES.map((id) => ({
      ...{ ...small, id, title: `${title}, over a wire of ${WIRES[id].title}`, runs },
      bytes: plan.wireBytes,
      ...{ concurrencies: wired, wire: WIRES[id] },
    })),
  ];
}

export const SEED = 20;

/**
 * What the client merging paper measured (tables 1 and 2): another machine, another
 * time, files up to 100 MB. Its course over the concurrency is what compares. MB/s and fetches/s.
 */
export const PAPER = {
  write: {
    direct: [4.46, 3.89, 2.92, 2.48, 2.34, 2.11],
    own: [6.38, 5.74, 5.09, 4.92, 4.84, 4.83],
    merging: [7.72, 7.56, 7.51, 7.43, 7.37, 7.33],
  },
  fetch: {
    direct: [42.58, 40.32, 34.67, 30.43],
    own: [95.4, 93.88, 85.65, 78.36],
    merging: [115.26, 114.62, 112.67, 108.58],
  },
} as const;

/** Seconds of CPU. */
export interface LoadCost {
  readonly perUpload: number;
  readonly perFetch: number;
}

/** Throws where a call failed. */
export function sound<T extends Transfer>(transfer: T): T {
  if (transfer.errors === 0) return transfer;
  throw new Error(`${transfer.errors} calls failed, such as ${transfer.firstError}`);
}

/** Over a wire to a named cluster, ours is no part of the comparison. */
export function takesPart(
  where: Where,
  wire: Wire | undefined,
  servers: readonly NamedServer[],
): boolean {
  if (!isThere(where, servers)) return false;
  return !wire || where !== 'ours' || !isThere('fastdfs', servers);
}

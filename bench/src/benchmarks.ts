import type { Benchmark } from './harness/benchmark.js';

interface Entry {
  /** In plain words. */
  readonly measures: string;
  /** Loaded when it is run. */
  readonly load: () => Promise<Benchmark>;
}

export const benchmarks = {
  servers: {
    measures: 'HTTP uploads and downloads, beside a plain node:http and servers that you name',
    load: async () => (await import('./servers/servers.js')).servers,
  },
  client: {
    measures: 'our FastDFS client beside npm fdfs',
    load: async () => (await import('./client/client.js')).client,
  },
  'client-merging': {
    measures: 'storing and fetching small files with and without merging them',
    load: async () => (await import('./client-merging/client-merging.js')).clientMerging,
  },
  merging: {
    measures: 'what weeks of uploads make of FastDFS, and how fast a backlog is merged',
    load: async () => (await import('./merging/merging.js')).merging,
  },
  staging: {
    measures: 'starts and operations with very many files',
    load: async () => (await import('./staging/staging.js')).staging,
  },
  'data-node': {
    measures: 'what a storage gains by its cache and by reading whole groups of files',
    load: async () => (await import('./data-node/data-node.js')).dataNode,
  },
  migration: {
    measures: 'forecasts of load, and small files that move between storages',
    load: async () => (await import('./migration/migration.js')).migration,
  },
  scaling: {
    measures: 'a simulation: up to 1,000 gateways and 100,000,000,000 files',
    load: async () => (await import('./scaling/scaling.js')).scaling,
  },
} as const satisfies Readonly<Record<string, Entry>>;

export type BenchmarkName = keyof typeof benchmarks;

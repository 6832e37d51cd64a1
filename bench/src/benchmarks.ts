import type { Benchmark } from './harness/benchmark.js';

/** All benchmarks by name, each loaded when it is run. */
export const benchmarks = {
  'client-merging': async () => (await import('./client-merging/client-merging.js')).clientMerging,
  merging: async () => (await import('./merging/merging.js')).merging,
  client: async () => (await import('./client/client.js')).client,
  migration: async () => (await import('./migration/migration.js')).migration,
  staging: async () => (await import('./staging/staging.js')).staging,
  gateway: async () => (await import('./gateway/gateway.js')).gateway,
  servers: async () => (await import('./servers/servers.js')).servers,
  pictures: async () => (await import('./pictures/pictures.js')).pictures,
  workers: async () => (await import('./gateway/workers.js')).workers,
  replication: async () => (await import('./replication/replication.js')).replication,
  deployment: async () => (await import('./deployment/deployment.js')).deployment,
  scaling: async () => (await import('./scaling/scaling.js')).scaling,
  'data-node': async () => (await import('./data-node/data-node.js')).dataNode,
} satisfies Readonly<Record<string, () => Promise<Benchmark>>>;

export type BenchmarkName = keyof typeof benchmarks;

export const benchmarkNames = Object.keys(benchmarks) as readonly BenchmarkName[];

import type { BenchmarkContext } from '../harness/benchmark.js';
import { Child } from '../harness/child.js';
import { StorageNode } from '../harness/storage-node.js';
import type { ClusterHandlers } from './cluster-process.js';

/** What the clients are measured against, each in a process of its own. */

export type ServerName =
  /** Our tracker and storage as they are: an upload is on disk when it is acknowledged. */
  | 'storage'
  /** The cluster in memory for tests: no disk, so that what is left is the client. */
  | 'memory'
  /** The cluster that was named. */
  | 'cluster';

export interface Server extends AsyncDisposable {
  readonly name: ServerName;
  readonly trackers: readonly string[];
  /** Undefined for a cluster that was named: its processes are not ours. */
  cpuSeconds(): Promise<number | undefined>;
}

export function serverNames({ trackers }: BenchmarkContext): readonly ServerName[] {
  return trackers ? ['memory', 'storage', 'cluster'] : ['memory', 'storage'];
}

export async function startServer(context: BenchmarkContext, name: ServerName): Promise<Server> {
  if (name === 'memory') return startMemoryServer();
  if (name === 'storage') return startStorage(context);
  const { trackers = [] } = context;
  return {
    name,
    trackers,
    cpuSeconds: () => Promise.resolve(undefined),
    [Symbol.asyncDispose]: () => Promise.resolve(),
  };
}

export async function startMemoryServer(): Promise<Server> {
  const child = new Child<ClusterHandlers>(
    'cluster in memory',
    new URL('./cluster-process.js', import.meta.url),
  );
  try {
    return {
      name: 'memory',
      trackers: await child.call('start', undefined),
      cpuSeconds: () => child.cpuSeconds(),
      [Symbol.asyncDispose]: () => child[Symbol.asyncDispose](),
    };
  } catch (error) {
    await child[Symbol.asyncDispose]();
    throw error;
  }
}

async function startStorage({ workspace }: BenchmarkContext): Promise<Server> {
  const directory = workspace.fresh('node');
  const node = new StorageNode();
  const end = async () => {
    await node[Symbol.asyncDispose]();
    await workspace.remove(directory);
  };
  try {
    return {
      name: 'storage',
      trackers: [await node.start(directory)],
      cpuSeconds: () => node.cpuSeconds(),
      [Symbol.asyncDispose]: end,
    };
  } catch (error) {
    await end();
    throw error;
  }
}

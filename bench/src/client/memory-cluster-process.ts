import { type MemoryCluster, startMemoryCluster } from '@stevedore/fastdfs/testing';
import { serve } from '../harness/serve.js';

/** A FastDFS cluster that keeps its files in memory, in a process of its own. */

export type MemoryClusterHandlers = {
  /** Answers with the addresses of the trackers. */
  readonly start: () => Promise<readonly string[]>;
};

let cluster: MemoryCluster | undefined;

async function start(): Promise<readonly string[]> {
  cluster = await startMemoryCluster();
  return cluster.trackers;
}

serve({ start } satisfies MemoryClusterHandlers, async () => {
  await cluster?.close();
});

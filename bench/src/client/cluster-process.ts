import { startTestCluster, type TestCluster } from '@stevedore/node/testing';
import { serve } from '../harness/serve.js';

/** A FastDFS cluster that syncs nothing, in a process of its own. */

export type ClusterHandlers = {
  /** Answers with the addresses of the trackers. */
  readonly start: () => Promise<readonly string[]>;
};

let cluster: TestCluster | undefined;

async function start(): Promise<readonly string[]> {
  cluster = await startTestCluster();
  return cluster.trackers;
}

serve({ start } satisfies ClusterHandlers, async () => {
  await cluster?.close();
});

import { FastdfsClient, type FastdfsOptions, type PossibleOrphan } from '@stevedore/fastdfs';
import { onTestFinished } from 'vitest';
import { startTestCluster, type TestCluster, type TestClusterOptions } from './cluster/index.js';

/** A cluster and a client of it, closed behind the test. */

export interface ClusterSetup {
  readonly cluster: TestCluster;
  readonly client: FastdfsClient;
  /** What the client reported. */
  readonly orphans: PossibleOrphan[];
}

export async function testCluster(options: TestClusterOptions = {}): Promise<TestCluster> {
  const cluster = await startTestCluster(options);
  onTestFinished(() => cluster.close());
  return cluster;
}

export async function clusterSetup(
  options: Omit<FastdfsOptions, 'trackers'> = {},
  clusterOptions: TestClusterOptions = {},
): Promise<ClusterSetup> {
  const cluster = await testCluster(clusterOptions);
  const client = new FastdfsClient({ trackers: cluster.trackers, ...options });
  const orphans: PossibleOrphan[] = [];
  client.on('possibleOrphan', (orphan) => orphans.push(orphan));
  onTestFinished(() => client.close());
  return { cluster, client, orphans };
}

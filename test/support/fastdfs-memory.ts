import { FastdfsClient, type FastdfsOptions, type PossibleOrphan } from '@stevedore/fastdfs';
import {
  type MemoryCluster,
  type MemoryClusterOptions,
  startMemoryCluster,
} from '@stevedore/fastdfs/testing';
import { onTestFinished } from 'vitest';

/** A cluster in memory and a client of it, closed behind the test. */

export interface MemorySetup {
  readonly cluster: MemoryCluster;
  readonly client: FastdfsClient;
  /** What the client reported. */
  readonly orphans: PossibleOrphan[];
}

export async function memorySetup(
  options: Omit<FastdfsOptions, 'trackers'> = {},
  clusterOptions: MemoryClusterOptions = {},
): Promise<MemorySetup> {
  const cluster = await startMemoryCluster(clusterOptions);
  const client = new FastdfsClient({ trackers: cluster.trackers, ...options });
  const orphans: PossibleOrphan[] = [];
  client.on('possibleOrphan', (orphan) => orphans.push(orphan));
  onTestFinished(async () => {
    await client.close();
    await cluster.close();
  });
  return { cluster, client, orphans };
}

import { type Storage, type StorageOptions, startStorage } from '@stevedore/node';
import type { MigrationStatus } from '@stevedore/tiering/control';
import { startTracker, type Tracker } from '@stevedore/tracker';
import { startTestCluster, type TestCluster } from '../cluster/test-cluster.js';
import { serve } from './serve.js';

/** Trackers and storages, as many as are asked for, on free loopback ports of this process. */

const RESERVED_SPACE_MEGABYTES = 64;

let trackers: Tracker[] = [];
let storages: Storage[] = [];
let cluster: TestCluster | undefined;

function onError(error: Error): void {
  console.error(`node: ${error.message}`);
}

const handlers = {
  /** Answers with its address. */
  async tracker(host?: string): Promise<string> {
    const reserved = { reservedSpaceMegabytes: RESERVED_SPACE_MEGABYTES };
    const tracker = await startTracker({ port: 0, ...(host && { host }), ...reserved, onError });
    trackers.push(tracker);
    return `${host ?? '127.0.0.1'}:${tracker.port}`;
  },
  /** Answers with its port, once a tracker counts it as active. */
  async storage(options: Omit<StorageOptions, 'disk' | 'onError'>): Promise<number> {
    const storage = await startStorage({ port: 0, ...options, onError });
    storages.push(storage);
    if (options.trackers) await storage.active();
    return storage.port;
  },
  /** A cluster that syncs nothing; the addresses of its trackers. */
  async testCluster(): Promise<readonly string[]> {
    cluster = await startTestCluster();
    return cluster.trackers;
  },
  /** Of the first storage: bytes of its log that others do not have; undefined while one is away. */
  lagBytes(): number | undefined {
    const members = storages[0]?.replicationStatus().members ?? [];
    if (!members.every(({ isConnected }) => isConnected)) return undefined;
    return members.reduce((sum, each) => sum + each.lagBytes, 0);
  },
  migration(): MigrationStatus {
    const status = storages[0]?.migrationStatus();
    if (!status) throw new Error('the storage has no metadata tier');
    return status;
  },
};

export type NodesHandlers = typeof handlers;

serve(handlers, async () => {
  await Promise.all(storages.map((storage) => storage.close()));
  storages = [];
  await Promise.all(trackers.map((tracker) => tracker.close()));
  trackers = [];
  await cluster?.close();
});

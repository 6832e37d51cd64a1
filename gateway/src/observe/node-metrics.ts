import type { Storage } from '@stevedore/node';
import { prometheusText } from '@stevedore/tiering/control';
import type { Tracker } from '@stevedore/tracker';
import { collectDefaultMetrics, Gauge, Registry } from 'prom-client';
import { CACHE_COUNTERS, CACHE_GAUGES, type HasCache } from './cache-metrics.js';
import { addFigures, type Figure } from './figures.js';

/** The figures of a storage and of a tracker that run on their own. */

export type MetricsText = () => Promise<string>;

type StorageSource = HasCache & Pick<ReturnType<Storage['statistics']>, 'connections'>;

const CONNECTIONS: Figure<Pick<StorageSource, 'connections'>> = {
  name: 'stevedore_node_connections',
  help: 'Open connections of clients, storages and trackers.',
  of: ({ connections }) => connections.current,
};

/** Text for Prometheus about a storage: connections, operations, cache, and migration where it has any. */
export function storageMetrics(storage: Storage): MetricsText {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  addFigures<StorageSource>(
    registry,
    { gauges: [CONNECTIONS, ...CACHE_GAUGES], counters: CACHE_COUNTERS },
    () => ({ cache: storage.cacheStats(), connections: storage.statistics().connections }),
  );
  addOperations(registry, storage);
  addMembers(registry, storage);
  return async () => {
    const status = storage.migrationStatus();
    return (await registry.metrics()) + (status ? prometheusText(status) : '');
  };
}

/** Text for Prometheus about a tracker: connections, groups, storages by state. */
export function trackerMetrics(tracker: Tracker): MetricsText {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  addFigures(
    registry,
    {
      gauges: [
        CONNECTIONS,
        {
          name: 'stevedore_tracker_groups',
          help: 'Groups of storages.',
          of: ({ groups }: ReturnType<Tracker['overview']>) => groups,
        },
      ],
      counters: [],
    },
    () => tracker.overview(),
  );
  new Gauge({
    name: 'stevedore_tracker_storages',
    help: 'Storages that have joined, by state.',
    labelNames: ['state'],
    registers: [registry],
    collect() {
      for (const [state, count] of Object.entries(tracker.overview().storages)) {
        this.set({ state }, count);
      }
    },
  });
  return () => registry.metrics();
}

/**
 * Gauges, as they are sums that the storage keeps: what FastDFS calls total and success,
 * the latter in bytes for those whose name ends so.
 */
function addOperations(registry: Registry, storage: Storage): void {
  new Gauge({
    name: 'stevedore_storage_operations',
    help: 'Since the start, by operation: begun (total) and done (success); of names that end in Bytes, bytes.',
    labelNames: ['operation', 'count'],
    registers: [registry],
    collect() {
      for (const [operation, counts] of Object.entries(storage.statistics().operations)) {
        this.set({ operation, count: 'total' }, counts.total);
        this.set({ operation, count: 'success' }, counts.success);
      }
    },
  });
}

/** How far the other members of its group have the storage's changes. */
function addMembers(registry: Registry, storage: Storage): void {
  const registers = [registry];
  const ofMembers = (
    name: string,
    help: string,
    of: (member: ReturnType<Storage['replicationStatus']>['members'][number]) => number,
  ): void => {
    new Gauge({
      name,
      help,
      labelNames: ['member'],
      registers,
      collect() {
        this.reset();
        for (const member of storage.replicationStatus().members) {
          this.set({ member: member.id }, of(member));
        }
      },
    });
  };
  ofMembers('stevedore_member_connected', 'Whether it is connected.', ({ isConnected }) =>
    isConnected ? 1 : 0,
  );
  ofMembers(
    'stevedore_member_lag_bytes',
    "Of this storage's log, what it has not acknowledged.",
    ({ lagBytes }) => lagBytes,
  );
  ofMembers(
    'stevedore_member_refused_changes',
    'Changes that it refused.',
    ({ refused }) => refused,
  );
}

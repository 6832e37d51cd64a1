import type { Storage } from '@stevedore/node';
import { prometheusText } from '@stevedore/tiering/control';
import type { Tracker } from '@stevedore/tracker';
import { collectDefaultMetrics, Gauge, Registry } from 'prom-client';
import { addFigures, CACHE_COUNTERS, CACHE_GAUGES, type Figure, type HasCache } from './figures.js';

/** The figures of a standalone storage and tracker. */

export type MetricsText = () => Promise<string>;

type StorageSource = HasCache & Pick<ReturnType<Storage['statistics']>, 'connections'>;

const CONNECTIONS: Figure<Pick<StorageSource, 'connections'>> = [
  'node_connections',
  'Open connections of clients, storages and trackers.',
  ({ connections }) => connections.current,
];

type Member = ReturnType<Storage['replicationStatus']>['members'][number];

const MEMBERS: readonly Figure<Member>[] = [
  [
    'member_connected',
    '1 while the member is connected.',
    ({ isConnected }) => (isConnected ? 1 : 0),
  ],
  [
    'member_lag_bytes',
    "Bytes of this storage's log that the member has not acknowledged.",
    ({ lagBytes }) => lagBytes,
  ],
  ['member_refused_changes', 'Changes that the member refused.', ({ refused }) => refused],
];

/**
 * Text for Prometheus about a storage: connections, operations, cache and, with a metadata tier,
 * migration.
 */
export function storageMetrics(storage: Storage): MetricsText {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  addFigures<StorageSource>(
    registry,
    { gauges: [CONNECTIONS, ...CACHE_GAUGES], counters: CACHE_COUNTERS },
    () => ({ cache: storage.cacheStats(), connections: storage.statistics().connections }),
  );
  // Gauges, because the storage itself keeps the sums.
  labelled(
    registry,
    'storage_operations',
    'Operations since the start: started (total) and completed (success). Names that end in Bytes count bytes.',
    ['operation', 'count'],
    (gauge) => {
      for (const [operation, counts] of Object.entries(storage.statistics().operations)) {
        gauge.set({ operation, count: 'total' }, counts.total);
        gauge.set({ operation, count: 'success' }, counts.success);
      }
    },
  );
  for (const [name, help, read] of MEMBERS) {
    labelled(registry, name, help, ['member'], (gauge) => {
      for (const member of storage.replicationStatus().members) {
        gauge.set({ member: member.id }, read(member));
      }
    });
  }
  return async () => {
    const status = storage.migrationStatus();
    return (await registry.metrics()) + (status ? prometheusText(status) : '');
  };
}

/** Text for Prometheus about a tracker: connections, groups, storages by state. */
export function trackerMetrics(tracker: Tracker): MetricsText {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  const look = () => tracker.overview();
  const groups: Figure<ReturnType<typeof look>> = [
    'tracker_groups',
    'Groups of storages.',
    (overview) => overview.groups,
  ];
  addFigures(registry, { gauges: [CONNECTIONS, groups], counters: [] }, look);
  labelled(
    registry,
    'tracker_storages',
    'Storages that have joined, by state.',
    ['state'],
    (gauge) => {
      for (const [state, count] of Object.entries(look().storages)) gauge.set({ state }, count);
    },
  );
  return () => registry.metrics();
}

function labelled<Label extends string>(
  registry: Registry,
  name: string,
  help: string,
  labelNames: readonly Label[],
  fill: (gauge: Gauge<Label>) => void,
): void {
  new Gauge({
    name: `stevedore_${name}`,
    help,
    labelNames: [...labelNames],
    registers: [registry],
    collect() {
      this.reset();
      fill(this);
    },
  });
}

import type { Storage } from '@stevedore/node';
import type { ClassStatus, MigrationStatus } from '@stevedore/tiering/control';
import type { Tracker } from '@stevedore/tracker';
import { collectDefaultMetrics, Registry } from 'prom-client';
import {
  addFigures,
  CACHE_COUNTERS,
  CACHE_GAUGES,
  type Figure,
  type Figures,
  type HasCache,
  labelled,
} from './figures.js';

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

const LOAD: readonly Figure<ClassStatus>[] = [
  ['load_served_bytes', 'Bytes served in the last interval.', (each) => each.servedBytes],
  [
    'load_waiting_bytes',
    'Bytes of requests waiting at the end of the last interval.',
    (each) => each.waitingBytes,
  ],
  [
    'load_bytes',
    'Load of the last interval: bytes served, and those that waited at its end.',
    (each) => each.loadBytes,
  ],
  [
    'load_forecast_bytes',
    'The same, forecast for the next interval.',
    (each) => each.forecastBytes,
  ],
  [
    'load_forecast_error_bytes',
    'Mean absolute error of the forecasts.',
    (each) => each.meanErrorBytes,
  ],
  ['busy_answers_total', 'Requests answered with "busy".', (each) => each.busyAnswersTotal],
];

const MIGRATION: Figures<MigrationStatus> = {
  gauges: [
    [
      'load_capacity_bytes',
      'Bytes that the disk can serve in an interval.',
      (now) => now.capacityBytes,
    ],
    [
      'small_file_room_bytes',
      'Bytes of small-file requests admitted in an interval; 0: no limit.',
      (now) => now.smallFileRoomBytes,
    ],
    [
      'load_to_move_bytes',
      'Bytes of small-file load to move to other storage groups.',
      (now) => now.loadToMoveBytes,
    ],
    ['threshold_bytes', 'Largest file that becomes a row.', (now) => now.thresholdBytes],
    ['rows', 'Files kept as rows.', (now) => now.rows.files],
    ['rows_bytes', 'Bytes of files kept as rows.', (now) => now.rows.bytes],
    ['rows_room_bytes', 'Most bytes that all rows may use.', (now) => now.roomBytes],
    ['remote_files', 'Files whose bytes are in another storage group.', (now) => now.remote.files],
    ['remote_files_bytes', 'Bytes of files in other storage groups.', (now) => now.remote.bytes],
    [
      'remote_deletions_waiting',
      'Copies in other storage groups waiting for deletion.',
      (now) => now.unwantedCopies,
    ],
    [
      'remote_copies_open',
      'Copies in other storage groups that may exist: the reply to their upload was lost.',
      (now) => now.openCopies,
    ],
  ],
  counters: [
    [
      'remote_orphans_total',
      'Orphaned copies found in other storage groups and deleted.',
      (now) => now.orphans,
    ],
    ['moved_bytes_total', 'Bytes moved.', (now) => now.movedBytes],
    ['revokes_total', 'Moves revoked because the file changed.', (now) => now.revokes],
  ],
};

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
    (set) => {
      for (const [operation, counts] of Object.entries(storage.statistics().operations)) {
        set({ operation, count: 'total' }, counts.total);
        set({ operation, count: 'success' }, counts.success);
      }
    },
  );
  for (const [name, help, read] of MEMBERS) {
    labelled(registry, name, help, ['member'], (set) => {
      for (const member of storage.replicationStatus().members) {
        set({ member: member.id }, read(member));
      }
    });
  }
  const moves = storage.migrationStatus();
  if (moves) addMigration(registry, () => storage.migrationStatus() ?? moves);
  return () => registry.metrics();
}

function addMigration(registry: Registry, look: () => MigrationStatus): void {
  for (const [name, help, read] of LOAD) {
    labelled(registry, name, help, ['class'], (set) => {
      const { metadata, smallFile } = look().load;
      set({ class: 'metadata' }, read(metadata));
      set({ class: 'small_file' }, read(smallFile));
    });
  }
  addFigures(registry, MIGRATION, look);
  labelled(registry, 'moves_total', 'Moves of files, by outcome.', ['outcome'], (set) => {
    for (const [outcome, count] of Object.entries(look().moves)) set({ outcome }, count);
  });
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
    (set) => {
      for (const [state, count] of Object.entries(look().storages)) set({ state }, count);
    },
  );
  return () => registry.metrics();
}

import type { FileStore, StoreStats, TrunkEvent } from '@stevedore/client';
import { isStoreError } from '@stevedore/middleware/core';
import { Counter, Histogram, type Registry } from 'prom-client';
import { addFigures, CACHE_COUNTERS, CACHE_GAUGES, type Figures } from './figures.js';

/**
 * A store's figures for Prometheus. Most are read from `stats()` when they are asked
 * for; only trunks and errors are counted as they happen. No label comes from a client.
 */

const GAUGES: Figures<StoreStats>['gauges'] = [
  [
    'stevedore_staged_files',
    'Files acknowledged and not yet in FastDFS.',
    (stats) => stats.stagedFiles,
  ],
  ['stevedore_staged_bytes', 'Bytes of staged files.', (stats) => stats.stagedBytes],
  [
    'stevedore_merged_files',
    'Files in FastDFS that are not deleted.',
    (stats) => stats.mergedFiles,
  ],
  ['stevedore_merged_bytes', 'Bytes of merged files.', (stats) => stats.mergedBytes],
  ['stevedore_trunks', 'Trunks and large files in FastDFS.', (stats) => stats.trunks],
  ['stevedore_trunks_in_flight', 'Trunks being stored.', (stats) => stats.trunksInFlight],
  [
    'stevedore_large_files_in_flight',
    'Large files being stored.',
    (stats) => stats.largeFilesInFlight,
  ],
  [
    'stevedore_uploads_in_flight',
    'Uploads whose bytes are arriving.',
    (stats) => stats.uploadsInFlight,
  ],
  [
    'stevedore_unpackable_files',
    'Staged files whose bytes on this disk are damaged.',
    (stats) => stats.unpackableFiles,
  ],
  [
    'stevedore_map_pending',
    'Trunks and deletions not yet in the map of the deployment; 0 without a map.',
    (stats) => stats.map?.pending ?? 0,
  ],
  [
    'stevedore_map_up',
    '1 while the map of the deployment answers, and without a map.',
    (stats) => (stats.map?.isMapAvailable === false ? 0 : 1),
  ],
  [
    'stevedore_container_bytes',
    'Bytes of the container: staged files, and merged ones that are kept.',
    (stats) => stats.room.usedBytes,
  ],
  [
    'stevedore_container_limit_bytes',
    'Container bytes at which uploads are refused.',
    (stats) => stats.room.limitBytes,
  ],
  [
    'stevedore_container_resume_bytes',
    'Container bytes below which a full container takes uploads again.',
    (stats) => stats.room.resumeBytes,
  ],
  [
    'stevedore_disk_free_bytes',
    'Free bytes on the disk of the container.',
    (stats) => stats.room.freeBytes,
  ],
  [
    'stevedore_disk_min_free_bytes',
    'Free bytes below which uploads are refused.',
    (stats) => stats.room.minFreeBytes,
  ],
  [
    'stevedore_full',
    '1 while uploads are refused for lack of room.',
    (stats) => (stats.room.full === undefined ? 0 : 1),
  ],
  ...CACHE_GAUGES,
  [
    'stevedore_fastdfs_connections',
    'Open connections to trackers and storages.',
    (stats) => stats.connections.open,
  ],
  [
    'stevedore_fastdfs_connections_idle',
    'Open connections that no call uses.',
    (stats) => stats.connections.idle,
  ],
  [
    'stevedore_fastdfs_calls_queued',
    'Calls waiting for a connection.',
    (stats) => stats.connections.queued,
  ],
  [
    'stevedore_unconfirmed_trunks',
    'Trunks that too few storages are known to have; this disk keeps their files.',
    (stats) => stats.unconfirmedTrunks,
  ],
  [
    'stevedore_open_plans',
    'Trunks given up that may be in FastDFS all the same.',
    (stats) => stats.orphans.openPlans,
  ],
  [
    'stevedore_damaged_copies',
    'Damaged copies of files, which are not read.',
    (stats) => stats.damage.quarantined,
  ],
];

const COUNTERS: Figures<StoreStats>['counters'] = [
  ['stevedore_uploaded_files_total', 'Files acknowledged.', (stats) => stats.acknowledgedFiles],
  [
    'stevedore_uploaded_bytes_total',
    'Bytes of acknowledged files.',
    (stats) => stats.acknowledgedBytes,
  ],
  [
    'stevedore_uploads_failed_total',
    'Uploads that stored nothing.',
    (stats) => stats.failedUploads,
  ],
  ['stevedore_deleted_files_total', 'Files deleted.', (stats) => stats.deletedFiles],
  ['stevedore_reads_total', 'Reads begun, of whole files or ranges.', (stats) => stats.reads],
  ['stevedore_read_bytes_total', 'Bytes that reads asked for.', (stats) => stats.readBytes],
  [
    'stevedore_reads_failed_total',
    'Reads that failed before the first byte.',
    (stats) => stats.failedReads,
  ],
  ...CACHE_COUNTERS,
  [
    'stevedore_send_retries_total',
    'Failed attempts to store a trunk or large file, which were retried.',
    (stats) => stats.sendRetries,
  ],
  [
    'stevedore_fastdfs_requests_total',
    'Requests to trackers and storages.',
    (stats) => stats.connections.requests,
  ],
  [
    'stevedore_fastdfs_requests_failed_total',
    'Requests to trackers and storages that ended in an error.',
    (stats) => stats.connections.failedRequests,
  ],
  [
    'stevedore_fastdfs_requests_repeated_total',
    'Requests sent again: the server was busy, or the connection dead.',
    (stats) => stats.connections.repeatedRequests,
  ],
  [
    'stevedore_orphans_adopted_total',
    'Trunks found in FastDFS without a record, and adopted.',
    (stats) => stats.orphans.adopted,
  ],
  [
    'stevedore_orphans_deleted_total',
    'Trunks found in FastDFS without a record, and deleted.',
    (stats) => stats.orphans.deleted,
  ],
  ['stevedore_damage_found_total', 'Copies of files found damaged.', (stats) => stats.damage.found],
  [
    'stevedore_damage_repaired_total',
    'Files with a damaged copy that were repaired.',
    (stats) => stats.damage.repaired,
  ],
  [
    'stevedore_scrub_walks_total',
    'Complete passes of the background scrub.',
    (stats) => stats.scrub.walks,
  ],
  [
    'stevedore_scrub_files_total',
    'Copies of files read by the background scrub.',
    (stats) => stats.scrub.files,
  ],
  [
    'stevedore_scrub_bytes_total',
    'Bytes read by the background scrub.',
    (stats) => stats.scrub.bytes,
  ],
];

const FILL_BUCKETS = [0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 0.9999, 1];
const STORE_BUCKETS_SECONDS = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300];

/** Registers the figures; returns what ends the counting of trunks and errors. */
export function addStoreMetrics(registry: Registry, store: FileStore): () => void {
  addFigures(registry, { gauges: GAUGES, counters: COUNTERS }, () => store.stats());
  return countEvents(registry, store);
}

function countEvents(registry: Registry, store: FileStore): () => void {
  const registers = [registry];
  const fill = new Histogram({
    name: 'stevedore_trunk_fill_ratio',
    help: 'How full stored trunks are, as a share of trunkSize.',
    buckets: FILL_BUCKETS,
    registers,
  });
  const durations = new Histogram({
    name: 'stevedore_merge_duration_seconds',
    help: 'Time from the choice of files to the confirmed trunk or large file.',
    labelNames: ['kind'],
    buckets: STORE_BUCKETS_SECONDS,
    registers,
  });
  const files = new Counter({
    name: 'stevedore_stored_files_total',
    help: 'Files that were stored in FastDFS.',
    labelNames: ['kind'],
    registers,
  });
  const bytes = new Counter({
    name: 'stevedore_stored_bytes_total',
    help: 'Bytes of trunks and large files that were stored.',
    labelNames: ['kind'],
    registers,
  });
  const errors = new Counter({
    name: 'stevedore_background_errors_total',
    help: 'Trouble in the background, by code. It is retried; nothing acknowledged is lost.',
    labelNames: ['code'],
    registers,
  });
  const onTrunk = (trunk: TrunkEvent): void => {
    const { kind } = trunk;
    if (kind === 'trunk') fill.observe(trunk.fill);
    durations.observe({ kind }, trunk.durationMs / 1000);
    files.inc({ kind }, trunk.files);
    bytes.inc({ kind }, trunk.bytes);
  };
  const onError = (error: unknown): void => errors.inc({ code: errorCode(error) });
  store.on('trunk', onTrunk);
  store.on('error', onError);
  return () => {
    store.off('trunk', onTrunk);
    store.off('error', onError);
  };
}

/** The code of an error of ours; `other` for any that is not. */
export function errorCode(error: unknown): string {
  if (isStoreError(error)) return error.code;
  if (error instanceof Error && error.name === 'FastdfsError' && 'code' in error) {
    return String(error.code);
  }
  return 'other';
}

import { isStoreError, type StoreStats, type TrunkEvent } from '@stevedore/client';
import type { GatewayStore } from '@stevedore/client/internal';
import { isError } from '@stevedore/protocol';
import { Counter, Histogram, type Registry } from 'prom-client';
import { addFigures, CACHE_COUNTERS, CACHE_GAUGES, type Figures } from './figures.js';

/**
 * A store's figures for Prometheus. Most are read from `stats()` on request; only trunks and errors
 * are counted as they happen. No label comes from a client.
 */

const GAUGES: Figures<StoreStats>['gauges'] = [
  ['staged_files', 'Files acknowledged and not yet in FastDFS.', (s) => s.stagedFiles],
  ['staged_bytes', 'Bytes of staged files.', (s) => s.stagedBytes],
  ['merged_files', 'Files in FastDFS that are not deleted.', (s) => s.mergedFiles],
  ['merged_bytes', 'Bytes of merged files.', (s) => s.mergedBytes],
  [
    'derived_files',
    'Files made of others, such as pictures in other sizes.',
    (s) => s.derivedFiles,
  ],
  ['derived_bytes', 'Bytes of derived files.', (s) => s.derivedBytes],
  ['trunks', 'Trunks and large files in FastDFS.', (s) => s.trunks],
  ['trunks_in_flight', 'Trunks being stored.', (s) => s.trunksInFlight],
  ['large_files_in_flight', 'Large files being stored.', (s) => s.largeFilesInFlight],
  ['uploads_in_flight', 'Uploads whose bytes are arriving.', (s) => s.uploadsInFlight],
  ['unfinished_uploads', 'Resumable uploads that are not finished.', (s) => s.unfinishedUploads],
  ['unfinished_bytes', 'Bytes of unfinished uploads.', (s) => s.unfinishedBytes],
  ['unpackable_files', 'Staged files damaged on this disk.', (s) => s.unpackableFiles],
  ['map_pending', 'Changes not yet in the map; 0 without one.', (s) => s.map?.pending ?? 0],
  [
    'map_up',
    '1 while the map answers; 1 without a map.',
    (s) => (s.map?.isMapAvailable === false ? 0 : 1),
    'min',
  ],
  [
    'partner_up',
    '1 while a partner keeps second copies; 1 without staged copies.',
    (s) => (s.copies && s.copies.state !== 'up' ? 0 : 1),
  ],
  ['partner_lag_bytes', 'Bytes that the partner lacks.', (s) => s.copies?.lagBytes ?? 0],
  ['held_copies', 'Gateways of which this one holds copies.', (s) => s.held?.heldCopies ?? 0],
  ['held_bytes', 'Bytes of copies held for other gateways.', (s) => s.held?.heldBytes ?? 0],
  ['container_bytes', 'Bytes of staged files and read copies.', (s) => s.room.usedBytes],
  ['container_limit_bytes', 'At which uploads are refused.', (s) => s.room.limitBytes],
  ['container_resume_bytes', 'Below which a full one takes uploads.', (s) => s.room.resumeBytes],
  ['disk_free_bytes', 'Free bytes on the disk of the container.', (s) => s.room.freeBytes, 'min'],
  [
    'disk_min_free_bytes',
    'Free bytes below which uploads are refused.',
    (s) => s.room.minFreeBytes,
    'max',
  ],
  [
    'full',
    '1 while uploads are refused for lack of space.',
    (s) => (s.room.full === undefined ? 0 : 1),
    'max',
  ],
  ...CACHE_GAUGES,
  ['fastdfs_connections', 'Open connections to trackers and storages.', (s) => s.connections.open],
  ['fastdfs_connections_idle', 'Open connections that are idle.', (s) => s.connections.idle],
  ['fastdfs_calls_queued', 'Calls waiting for a connection.', (s) => s.connections.queued],
  ['unconfirmed_trunks', 'Trunks that too few storages have yet.', (s) => s.unconfirmedTrunks],
  ['open_plans', 'Abandoned trunks that may still be in FastDFS.', (s) => s.orphans.openPlans],
  [
    'missing_in_fastdfs',
    'Trunks and large files that FastDFS has lost.',
    (s) => s.missingInFastdfs,
    'max',
  ],
  ['damaged_copies', 'Damaged copies of files in quarantine.', (s) => s.damage.quarantined],
];

const COUNTERS: Figures<StoreStats>['counters'] = [
  ['uploaded_files_total', 'Files acknowledged.', (s) => s.acknowledgedFiles],
  ['uploaded_bytes_total', 'Bytes of acknowledged files.', (s) => s.acknowledgedBytes],
  ['uploads_failed_total', 'Uploads that stored nothing.', (s) => s.failedUploads],
  ['deleted_files_total', 'Files deleted.', (s) => s.deletedFiles],
  ['reads_total', 'Reads started, of whole files or ranges.', (s) => s.reads],
  ['read_bytes_total', 'Bytes requested by reads.', (s) => s.readBytes],
  ['reads_failed_total', 'Reads that failed before the first byte.', (s) => s.failedReads],
  [
    'copied_to_fastdfs_total',
    'Small files sent to FastDFS before the 201, without a partner.',
    (s) => s.copies?.copiedToFastdfs ?? 0,
  ],
  [
    'one_copy_files_total',
    'Files acknowledged with one copy, where two were wanted.',
    (s) => s.copies?.withOneCopy ?? 0,
  ],
  ['partner_refused_total', 'Changes refused without a partner.', (s) => s.copies?.refused ?? 0],
  ...CACHE_COUNTERS,
  ['send_retries_total', 'Failed attempts to store a trunk.', (s) => s.sendRetries],
  ['fastdfs_requests_total', 'Requests to trackers and storages.', (s) => s.connections.requests],
  [
    'fastdfs_requests_failed_total',
    'Requests to them that ended in an error.',
    (s) => s.connections.failedRequests,
  ],
  [
    'fastdfs_requests_repeated_total',
    'Requests to them that were tried again.',
    (s) => s.connections.repeatedRequests,
  ],
  ['orphans_adopted_total', 'Orphaned trunks found and adopted.', (s) => s.orphans.adopted],
  ['orphans_deleted_total', 'Orphaned trunks found and deleted.', (s) => s.orphans.deleted],
  ['damage_found_total', 'Damaged copies of files found.', (s) => s.damage.found],
  ['damage_repaired_total', 'Files whose damaged copy was repaired.', (s) => s.damage.repaired],
  ['scrub_walks_total', 'Complete passes of the background scrub.', (s) => s.scrub.walks],
  ['scrub_files_total', 'Copies of files read by the background scrub.', (s) => s.scrub.files],
  ['scrub_bytes_total', 'Bytes read by the background scrub.', (s) => s.scrub.bytes],
];

const FILL_BUCKETS = [0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 0.9999, 1];
const STORE_BUCKETS_SECONDS = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300];

/** Registers the figures; returns a function that stops counting trunks and errors. */
export function addStoreMetrics(
  registry: Registry,
  store: GatewayStore,
  stats: () => StoreStats,
): () => void {
  addFigures(registry, { gauges: GAUGES, counters: COUNTERS }, stats);
  return countEvents(registry, store);
}

function countEvents(registry: Registry, store: GatewayStore): () => void {
  const registers = [registry];
  const fill = new Histogram({
    name: 'stevedore_trunk_fill_ratio',
    help: 'Fill of stored trunks, as a share of trunkSize.',
    buckets: FILL_BUCKETS,
    registers,
  });
  const durations = new Histogram({
    name: 'stevedore_merge_duration_seconds',
    help: 'Time from choosing the files to the confirmed trunk or large file.',
    labelNames: ['kind'],
    buckets: STORE_BUCKETS_SECONDS,
    registers,
  });
  const files = new Counter({
    name: 'stevedore_stored_files_total',
    help: 'Files stored in FastDFS.',
    labelNames: ['kind'],
    registers,
  });
  const bytes = new Counter({
    name: 'stevedore_stored_bytes_total',
    help: 'Bytes of trunks and large files stored.',
    labelNames: ['kind'],
    registers,
  });
  const errors = new Counter({
    name: 'stevedore_background_errors_total',
    help: 'Background errors, by code. The work is retried; nothing acknowledged is lost.',
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

/** The code of an error of the store or of FastDFS; `other` for any other. */
export function errorCode(error: unknown): string {
  if (isStoreError(error)) return error.code;
  if (isError(error) && error.name === 'FastdfsError' && 'code' in error) {
    return String(error.code);
  }
  return 'other';
}

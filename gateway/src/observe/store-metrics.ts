import type { FileStore, StoreStats, TrunkEvent } from '@stevedore/client';
import { isStoreError } from '@stevedore/middleware/core';
import { Counter, Histogram, type Registry } from 'prom-client';
import { CACHE_COUNTERS, CACHE_GAUGES } from './cache-metrics.js';
import { addFigures, type Figure, type Figures } from './figures.js';
import { INTEGRITY_COUNTERS, INTEGRITY_GAUGES } from './integrity-metrics.js';

/**
 * A store's figures for Prometheus. Most are read from `stats()` when they are asked
 * for; only trunks and errors are counted as they happen. No label comes from a client.
 */

const GAUGES: Figures<StoreStats>['gauges'] = [
  {
    name: 'stevedore_staged_files',
    help: 'Files that are acknowledged and not yet in FastDFS.',
    of: (stats) => stats.stagedFiles,
  },
  {
    name: 'stevedore_staged_bytes',
    help: 'Bytes of staged files.',
    of: (stats) => stats.stagedBytes,
  },
  {
    name: 'stevedore_merged_files',
    help: 'Living files that are in FastDFS.',
    of: (stats) => stats.mergedFiles,
  },
  {
    name: 'stevedore_merged_bytes',
    help: 'Bytes of merged files.',
    of: (stats) => stats.mergedBytes,
  },
  {
    name: 'stevedore_trunks',
    help: 'Trunks and large files that are in FastDFS.',
    of: (stats) => stats.trunks,
  },
  {
    name: 'stevedore_trunks_in_flight',
    help: 'Trunks that are being stored.',
    of: (stats) => stats.trunksInFlight,
  },
  {
    name: 'stevedore_large_files_in_flight',
    help: 'Large files that are being stored.',
    of: (stats) => stats.largeFilesInFlight,
  },
  {
    name: 'stevedore_uploads_in_flight',
    help: 'Uploads whose bytes are arriving.',
    of: (stats) => stats.uploadsInFlight,
  },
  {
    name: 'stevedore_unpackable_files',
    help: 'Staged files whose bytes on this disk are damaged.',
    of: (stats) => stats.unpackableFiles,
  },
  {
    name: 'stevedore_map_pending',
    help: 'Trunks and deletions that the map of the deployment has not been told; 0 without a map.',
    of: (stats) => stats.map?.pending ?? 0,
  },
  {
    name: 'stevedore_map_up',
    help: '1 while the map of the deployment answers, and without a map.',
    of: (stats) => (stats.map?.isMapAvailable === false ? 0 : 1),
  },
  {
    name: 'stevedore_container_bytes',
    help: 'Bytes of staged files and of merged ones that are kept, on this disk.',
    of: (stats) => stats.room.usedBytes,
  },
  {
    name: 'stevedore_container_limit_bytes',
    help: 'At this many uploads are refused.',
    of: (stats) => stats.room.limitBytes,
  },
  {
    name: 'stevedore_container_resume_bytes',
    help: 'Below this many a container that was full takes uploads again.',
    of: (stats) => stats.room.resumeBytes,
  },
  {
    name: 'stevedore_disk_free_bytes',
    help: 'Free on the disk of the container.',
    of: (stats) => stats.room.freeBytes,
  },
  {
    name: 'stevedore_disk_min_free_bytes',
    help: 'Below this many free bytes uploads are refused.',
    of: (stats) => stats.room.minFreeBytes,
  },
  {
    name: 'stevedore_full',
    help: '1 while uploads are refused for want of room.',
    of: (stats) => (stats.room.full === undefined ? 0 : 1),
  },
  ...CACHE_GAUGES,
  {
    name: 'stevedore_fastdfs_connections',
    help: 'Open connections to trackers and storages.',
    of: (stats) => stats.connections.open,
  },
  {
    name: 'stevedore_fastdfs_connections_idle',
    help: 'Open connections that no call uses.',
    of: (stats) => stats.connections.idle,
  },
  {
    name: 'stevedore_fastdfs_calls_queued',
    help: 'Calls that wait for a connection.',
    of: (stats) => stats.connections.queued,
  },
  ...INTEGRITY_GAUGES,
];

const COUNTERS: readonly Figure<StoreStats>[] = [
  {
    name: 'stevedore_uploaded_files_total',
    help: 'Files acknowledged.',
    of: (stats) => stats.acknowledgedFiles,
  },
  {
    name: 'stevedore_uploaded_bytes_total',
    help: 'Bytes of acknowledged files.',
    of: (stats) => stats.acknowledgedBytes,
  },
  {
    name: 'stevedore_uploads_failed_total',
    help: 'Uploads that stored nothing.',
    of: (stats) => stats.failedUploads,
  },
  {
    name: 'stevedore_deleted_files_total',
    help: 'Files deleted.',
    of: (stats) => stats.deletedFiles,
  },
  {
    name: 'stevedore_reads_total',
    help: 'Reads begun, of whole files or ranges.',
    of: (stats) => stats.reads,
  },
  {
    name: 'stevedore_read_bytes_total',
    help: 'Bytes that reads asked for.',
    of: (stats) => stats.readBytes,
  },
  {
    name: 'stevedore_reads_failed_total',
    help: 'Reads that failed before the first byte.',
    of: (stats) => stats.failedReads,
  },
  ...CACHE_COUNTERS,
  {
    name: 'stevedore_send_retries_total',
    help: 'Attempts to store a trunk or large file that failed and were repeated.',
    of: (stats) => stats.sendRetries,
  },
  {
    name: 'stevedore_fastdfs_requests_total',
    help: 'Requests to trackers and storages.',
    of: (stats) => stats.connections.requests,
  },
  {
    name: 'stevedore_fastdfs_requests_failed_total',
    help: 'Requests to them that ended in an error.',
    of: (stats) => stats.connections.failedRequests,
  },
  {
    name: 'stevedore_fastdfs_requests_repeated_total',
    help: 'Requests that were sent again: the server was busy, or the connection dead.',
    of: (stats) => stats.connections.repeatedRequests,
  },
  ...INTEGRITY_COUNTERS,
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
    help: 'Share of its size that a stored trunk is filled.',
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

import type { StoreStats } from '@stevedore/client';
import type { Figure } from './figures.js';

/** Figures of a file cache: that of a store, and that of a storage. */

export type HasCache = Pick<StoreStats, 'cache'>;

export const CACHE_GAUGES: readonly Figure<HasCache>[] = [
  {
    name: 'stevedore_cache_files',
    help: 'Files in the cache of what was read.',
    of: ({ cache }) => cache.files,
  },
  {
    name: 'stevedore_cache_bytes',
    help: 'Bytes in that cache.',
    of: ({ cache }) => cache.bytes,
  },
  {
    name: 'stevedore_cache_hit_ratio',
    help: 'Share of the reads since the start that the cache answered.',
    of: ({ cache }) => cache.hitRatio,
  },
  {
    name: 'stevedore_cache_byte_hit_ratio',
    help: 'Share of their bytes.',
    of: ({ cache }) => cache.byteHitRatio,
  },
];

/** Since the start. */
export const CACHE_COUNTERS: readonly Figure<HasCache>[] = [
  {
    name: 'stevedore_cache_hits_total',
    help: 'Reads answered from the cache.',
    of: ({ cache }) => cache.hits,
  },
  {
    name: 'stevedore_cache_misses_total',
    help: 'Reads that the cache could not answer.',
    of: ({ cache }) => cache.misses,
  },
  {
    name: 'stevedore_cache_hit_bytes_total',
    help: 'Bytes of reads answered from the cache.',
    of: ({ cache }) => cache.hitBytes,
  },
  {
    name: 'stevedore_cache_miss_bytes_total',
    help: 'Bytes of reads that it could not answer.',
    of: ({ cache }) => cache.missBytes,
  },
  {
    name: 'stevedore_cache_misses_first_total',
    help: 'Misses of files that were not asked for before, as far as is known.',
    of: ({ cache }) => cache.missesFirst,
  },
  {
    name: 'stevedore_cache_misses_again_total',
    help: 'Misses of files that were asked for before and are no longer there.',
    of: ({ cache }) => cache.missesAgain,
  },
  {
    name: 'stevedore_cache_shared_loads_total',
    help: 'Misses that waited for a load that was under way.',
    of: ({ cache }) => cache.sharedLoads,
  },
  {
    name: 'stevedore_cache_absent_answers_total',
    help: 'Misses of files that were known to be absent.',
    of: ({ cache }) => cache.absentAnswers,
  },
  {
    name: 'stevedore_cache_too_large_total',
    help: 'Files that were loaded and not kept for their size.',
    of: ({ cache }) => cache.tooLarge,
  },
  {
    name: 'stevedore_cache_filter_no_total',
    help: 'Misses that the filter told without a look.',
    of: ({ cache }) => cache.filterNo,
  },
  {
    name: 'stevedore_cache_filter_false_total',
    help: 'Looks for files that the filter did not rule out and that were not there.',
    of: ({ cache }) => cache.filterFalse,
  },
  {
    name: 'stevedore_cache_evicted_total',
    help: 'Files that went for others.',
    of: ({ cache }) => cache.evicted,
  },
  {
    name: 'stevedore_cache_rejected_total',
    help: 'Files that were not asked for often enough to stay.',
    of: ({ cache }) => cache.rejected,
  },
  {
    name: 'stevedore_cache_read_ahead_bytes_total',
    help: 'Bytes read along with a file of their group.',
    of: ({ cache }) => cache.readAhead.readBytes,
  },
  {
    name: 'stevedore_cache_read_ahead_used_bytes_total',
    help: 'Of those, bytes of files that were asked for.',
    of: ({ cache }) => cache.readAhead.usedBytes,
  },
  {
    name: 'stevedore_cache_read_ahead_unused_bytes_total',
    help: 'Of those, bytes of files that went unasked.',
    of: ({ cache }) => cache.readAhead.unusedBytes,
  },
  {
    name: 'stevedore_cache_read_ahead_declined_total',
    help: 'Times that a group was not read along because it had not paid.',
    of: ({ cache }) => cache.readAhead.declined,
  },
];

import type { StoreStats } from '@stevedore/client';
import { Counter, Gauge, type Registry } from 'prom-client';

/** Figures for Prometheus that are read from a source on request. */

/** The name after `stevedore_`; `of` says how to combine those of several processes. */
export type Figure<Source> = readonly [
  name: string,
  help: string,
  read: (source: Source) => number,
  of?: 'sum' | 'min' | 'max' | 'average',
];

export interface Figures<Source> {
  /** A current value. */
  readonly gauges: readonly [Figure<Source>, ...Figure<Source>[]];
  /** A total since the start. */
  readonly counters: readonly Figure<Source>[];
}

/** Adds them to the registry; one read of the source serves all of them. */
export function addFigures<Source>(
  registry: Registry,
  figures: Figures<Source>,
  look: () => Source,
): void {
  const registers = [registry];
  const gauges = figures.gauges.map(([name, help, read, of = 'sum']) => ({
    read,
    gauge: new Gauge({ name: `stevedore_${name}`, help, registers, aggregator: of }),
  }));
  const counters = figures.counters.map(([name, help, read]) => ({
    read,
    counter: new Counter({ name: `stevedore_${name}`, help, registers }),
  }));
  const first = gauges[0]!.gauge as unknown as { collect: () => void };
  first.collect = () => {
    const source = look();
    for (const { gauge, read } of gauges) gauge.set(read(source));
    for (const { counter, read } of counters) {
      counter.reset();
      counter.inc(read(source));
    }
  };
}

/** Of a file cache: that of a store, and that of a storage. */
export type HasCache = Pick<StoreStats, 'cache'>;

export const CACHE_GAUGES: readonly Figure<HasCache>[] = [
  ['cache_files', 'Files in the read cache.', ({ cache }) => cache.files],
  ['cache_bytes', 'Bytes in the read cache.', ({ cache }) => cache.bytes],
  [
    'cache_hit_ratio',
    'Share of reads that the cache answered, since the start.',
    ({ cache }) => cache.hitRatio,
    'average',
  ],
  [
    'cache_byte_hit_ratio',
    'Share of bytes read that the cache answered, since the start.',
    ({ cache }) => cache.byteHitRatio,
    'average',
  ],
];

export const CACHE_COUNTERS: readonly Figure<HasCache>[] = [
  ['cache_hits_total', 'Reads answered from the cache.', ({ cache }) => cache.hits],
  ['cache_misses_total', 'Reads that the cache could not answer.', ({ cache }) => cache.misses],
  [
    'cache_hit_bytes_total',
    'Bytes of reads answered from the cache.',
    ({ cache }) => cache.hitBytes,
  ],
  [
    'cache_miss_bytes_total',
    'Bytes of reads that the cache could not answer.',
    ({ cache }) => cache.missBytes,
  ],
  [
    'cache_misses_first_total',
    'Misses of files that were not read before, as far as the cache knows.',
    ({ cache }) => cache.missesFirst,
  ],
  [
    'cache_misses_again_total',
    'Misses of files that were read before and evicted since.',
    ({ cache }) => cache.missesAgain,
  ],
  [
    'cache_shared_loads_total',
    'Misses that waited for a load already in progress.',
    ({ cache }) => cache.sharedLoads,
  ],
  [
    'cache_absent_answers_total',
    'Misses of files known to be absent.',
    ({ cache }) => cache.absentAnswers,
  ],
  [
    'cache_too_large_total',
    'Files loaded and not cached because of their size.',
    ({ cache }) => cache.tooLarge,
  ],
  [
    'cache_filter_no_total',
    'Misses that the Bloom filter answered.',
    ({ cache }) => cache.filterNo,
  ],
  [
    'cache_filter_false_total',
    'False positives of the Bloom filter.',
    ({ cache }) => cache.filterFalse,
  ],
  ['cache_evicted_total', 'Files evicted to make room.', ({ cache }) => cache.evicted],
  [
    'cache_rejected_total',
    'Files not admitted because they are read too rarely.',
    ({ cache }) => cache.rejected,
  ],
  [
    'cache_read_ahead_bytes_total',
    'Bytes read ahead, along with a file of the same affinity group.',
    ({ cache }) => cache.readAhead.readBytes,
  ],
  [
    'cache_read_ahead_used_bytes_total',
    'Bytes read ahead that were requested later.',
    ({ cache }) => cache.readAhead.usedBytes,
  ],
  [
    'cache_read_ahead_unused_bytes_total',
    'Bytes read ahead that were evicted unused.',
    ({ cache }) => cache.readAhead.unusedBytes,
  ],
  [
    'cache_read_ahead_declined_total',
    'Reads of a group without read-ahead, because earlier read-ahead was not used.',
    ({ cache }) => cache.readAhead.declined,
  ],
];

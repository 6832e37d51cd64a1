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
  const collect = (): void => {
    const source = look();
    for (const { gauge, read } of gauges) gauge.set(read(source));
    for (const { counter, read } of counters) {
      counter.reset();
      counter.inc(read(source));
    }
  };
  Object.assign(gauges[0]?.gauge ?? {}, { collect });
}

/** Figures of one name, read on request. A name that ends in `_total` is that of a counter. */
export function labelled<Label extends string>(
  registry: Registry,
  name: string,
  help: string,
  labelNames: readonly Label[],
  fill: (set: (labels: Record<Label, string>, value: number) => void) => void,
): void {
  const Metric = name.endsWith('_total') ? Counter<Label> : Gauge<Label>;
  new Metric({
    name: `stevedore_${name}`,
    help,
    labelNames: [...labelNames],
    registers: [registry],
    collect() {
      this.reset();
      fill((labels, value) => this.inc(labels, value));
    },
  });
}

/** Of a file cache: that of a store, and that of a storage. */
export type HasCache = Pick<StoreStats, 'cache'>;

export const CACHE_GAUGES: readonly Figure<HasCache>[] = [
  ['cache_files', 'Files in the read cache.', (s) => s.cache.files],
  ['cache_bytes', 'Bytes in the read cache.', (s) => s.cache.bytes],
  [
    'cache_hit_ratio',
    'Share of reads answered from the cache.',
    (s) => s.cache.hitRatio,
    'average',
  ],
  [
    'cache_byte_hit_ratio',
    'Share of bytes read that came from the cache.',
    (s) => s.cache.byteHitRatio,
    'average',
  ],
];

export const CACHE_COUNTERS: readonly Figure<HasCache>[] = [
  ['cache_hits_total', 'Reads answered from the cache.', (s) => s.cache.hits],
  ['cache_misses_total', 'Reads not answered from the cache.', (s) => s.cache.misses],
  ['cache_hit_bytes_total', 'Bytes answered from the cache.', (s) => s.cache.hitBytes],
  ['cache_miss_bytes_total', 'Bytes not answered from the cache.', (s) => s.cache.missBytes],
  ['cache_misses_first_total', 'Misses of files not read before.', (s) => s.cache.missesFirst],
  ['cache_misses_again_total', 'Misses of files that were evicted.', (s) => s.cache.missesAgain],
  ['cache_shared_loads_total', 'Misses that joined a load under way.', (s) => s.cache.sharedLoads],
  [
    'cache_absent_answers_total',
    'Misses of files known to be absent.',
    (s) => s.cache.absentAnswers,
  ],
  ['cache_too_large_total', 'Files too large for the cache.', (s) => s.cache.tooLarge],
  ['cache_filter_no_total', 'Misses that the Bloom filter answered.', (s) => s.cache.filterNo],
  ['cache_filter_false_total', 'False positives of the filter.', (s) => s.cache.filterFalse],
  ['cache_evicted_total', 'Files evicted to make room.', (s) => s.cache.evicted],
  ['cache_rejected_total', 'Files read too rarely for the cache.', (s) => s.cache.rejected],
  [
    'cache_read_ahead_bytes_total',
    'Bytes read ahead, of the same affinity group.',
    (s) => s.cache.readAhead.readBytes,
  ],
  [
    'cache_read_ahead_used_bytes_total',
    'Bytes read ahead that were requested later.',
    (s) => s.cache.readAhead.usedBytes,
  ],
  [
    'cache_read_ahead_unused_bytes_total',
    'Bytes read ahead that were evicted unused.',
    (s) => s.cache.readAhead.unusedBytes,
  ],
  [
    'cache_read_ahead_declined_total',
    'Reads of an affinity group without read-ahead.',
    (s) => s.cache.readAhead.declined,
  ],
];

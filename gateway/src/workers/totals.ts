import type { StoreStats } from '@stevedore/client';
import { AggregatorRegistry, Counter, Gauge, Registry } from 'prom-client';

/** The figures of several processes as those of one gateway. */

/** For figures of one disk, one map and one FastDFS, the worst counts; all others are added up. */
const WORST: Readonly<Record<string, (one: number, other: number) => number>> = {
  freeBytes: Math.min,
  minFreeBytes: Math.max,
  missingInFastdfs: Math.max,
};

export function sumStats([first, ...others]: readonly StoreStats[]): StoreStats {
  if (!first) throw new TypeError('there are no figures to add up');
  if (others.length === 0) return first;
  const sum = others.reduce((all, each) => added(all, each) as StoreStats, first);
  const { cache } = sum;
  const hitRatio = share(cache.hits, cache.misses);
  const byteHitRatio = share(cache.hitBytes, cache.missBytes);
  return { ...sum, cache: { ...cache, hitRatio, byteHitRatio } };
}

function share(hits: number, misses: number): number {
  return hits + misses === 0 ? 0 : hits / (hits + misses);
}

/** Adds numbers; true only if both are; of anything else, the first that exists. */
function added(one: unknown, other: unknown, name = ''): unknown {
  if (typeof one === 'number' && typeof other === 'number') {
    return (WORST[name] ?? ((a: number, b: number) => a + b))(one, other);
  }
  if (typeof one === 'boolean' && typeof other === 'boolean') return one && other;
  if (!isRecord(one) || !isRecord(other)) return one ?? other;
  const names = new Set([...Object.keys(one), ...Object.keys(other)]);
  return Object.fromEntries([...names].map((each) => [each, added(one[each], other[each], each)]));
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** The figures of a process: `registry.getMetricsAsJSON()`. */
export type ProcessFigures = readonly { readonly type?: unknown }[];

/**
 * The `/metrics` of all processes. Counters of a worker that has ended keep their last values: a
 * sum that falls would look like a restart of the gateway.
 */
export class Totals {
  #ended: ProcessFigures = [];
  readonly #last = new Map<number, ProcessFigures>();
  readonly #own = new Registry();
  readonly #up: Gauge;
  readonly #restarts: Counter;

  constructor(workers: readonly number[]) {
    const registers = [this.#own];
    this.#up = new Gauge({
      name: 'stevedore_worker_up',
      help: '1 while the worker is up; while it is down, other workers serve its files.',
      labelNames: ['worker'],
      registers,
    });
    this.#restarts = new Counter({
      name: 'stevedore_worker_restarts_total',
      help: 'Restarts of the worker.',
      labelNames: ['worker'],
      registers,
    });
    for (const worker of workers) this.#restarts.inc({ worker }, 0);
  }

  noteUp(worker: number, isUp: boolean): void {
    this.#up.set({ worker }, isUp ? 1 : 0);
  }

  noteRestart(worker: number): void {
    this.#restarts.inc({ worker });
    const last = this.#last.get(worker);
    this.#last.delete(worker);
    if (!last) return;
    const counted = last.filter(({ type }) => type === 'counter' || type === 'histogram');
    this.#ended = AggregatorRegistry.aggregate([this.#ended, counted]).getMetricsAsArray();
  }

  /** `figures`: from the workers that answered, by number; `own`: from this process. */
  async text(figures: ReadonlyMap<number, ProcessFigures>, own: ProcessFigures): Promise<string> {
    for (const [worker, each] of figures) this.#last.set(worker, each);
    const all = [...figures.values(), this.#ended, own];
    return `${await AggregatorRegistry.aggregate(all).metrics()}\n${await this.#own.metrics()}`;
  }
}

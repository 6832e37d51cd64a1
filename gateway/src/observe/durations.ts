import { METHODS } from 'node:http';

/**
 * How long requests took: a histogram for `prom-client`, filled on the path of every request. The
 * library hashes the labels at each observation, which is too slow for a cached download; here a
 * series is looked up once and counts in a plain array.
 */

/** Upper bounds, in seconds. */
const DURATION_BUCKETS: readonly number[] = Object.freeze([
  0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60,
]);

export type Labels = Readonly<Record<string, string>>;

interface Sample {
  readonly labels: Record<string, string | number>;
  readonly value: number;
  readonly metricName: string;
}

export class DurationSeries {
  readonly labels: Labels;
  readonly #counts = new Float64Array(DURATION_BUCKETS.length + 1);
  #sum = 0;

  constructor(labels: Labels) {
    this.labels = labels;
  }

  observe(seconds: number): void {
    let bucket = 0;
    while (seconds > (DURATION_BUCKETS[bucket] ?? Number.POSITIVE_INFINITY)) bucket += 1;
    this.#counts[bucket] = (this.#counts[bucket] ?? 0) + 1;
    this.#sum += seconds;
  }

  *samples(name: string): Generator<Sample> {
    let count = 0;
    for (const [index, end] of [...DURATION_BUCKETS, '+Inf'].entries()) {
      count += this.#counts[index] ?? 0;
      yield { labels: { ...this.labels, le: end }, value: count, metricName: `${name}_bucket` };
    }
    yield { labels: { ...this.labels }, value: this.#sum, metricName: `${name}_sum` };
    yield { labels: { ...this.labels }, value: count, metricName: `${name}_count` };
  }
}

/** The interface that the registry expects of a metric. */
class DurationMetric {
  readonly name: string;
  readonly help: string;
  readonly #series: DurationSeries[] = [];

  constructor(name: string, help: string) {
    this.name = name;
    this.help = help;
  }

  series(labels: Labels): DurationSeries {
    const series = new DurationSeries(labels);
    this.#series.push(series);
    return series;
  }

  async get() {
    const values = this.#series.flatMap((series) => [...series.samples(this.name)]);
    return { name: this.name, help: this.help, type: 'histogram', values, aggregator: 'sum' };
  }
}

/** Labels are bounded: known methods, registered routes, and one for all others. */

/** The label of requests without a route. */
const NO_ROUTE = 'none';

const KNOWN_METHODS: ReadonlySet<string> = new Set(METHODS);

export class RequestDurations {
  readonly metric = new DurationMetric(
    'stevedore_http_request_duration_seconds',
    'Time from the headers of a request to the end of its answer.',
  );
  readonly #series = new Map<string, DurationSeries>();

  observe(method: string, route: string | undefined, status: number, seconds: number): void {
    this.series(method, route, status).observe(seconds);
  }

  series(method: string, route: string | undefined, status: number): DurationSeries {
    const call = `${method} ${status} ${route}`;
    const known = this.#series.get(call);
    if (known) return known;
    const series = this.metric.series({
      method: KNOWN_METHODS.has(method) ? method : 'other',
      route: route ?? NO_ROUTE,
      status: String(status),
    });
    this.#series.set(call, series);
    return series;
  }
}

import { METHODS } from 'node:http';
import { DurationMetric, type DurationSeries } from './duration-metric.js';

/**
 * How long requests took, by method, route and status. The labels are bounded: methods
 * are those of the parser, routes those that are registered, and all else is one.
 */

/** The label of requests to which no route answers. */
const NO_ROUTE = 'none';

const KNOWN_METHODS: ReadonlySet<string> = new Set(METHODS);

export class RequestDurations {
  readonly metric = new DurationMetric(
    'stevedore_http_request_duration_seconds',
    'Time from the head of a request to the end of its answer.',
  );
  readonly #routes = new Map<string, Map<string, DurationSeries>>();

  observe(method: string, route: string | undefined, status: number, seconds: number): void {
    this.series(method, route, status).observe(seconds);
  }

  series(method: string, route: string | undefined, status: number): DurationSeries {
    const name = route ?? NO_ROUTE;
    let byCall = this.#routes.get(name);
    if (!byCall) {
      byCall = new Map();
      this.#routes.set(name, byCall);
    }
    const call = `${method} ${status}`;
    let series = byCall.get(call);
    if (!series) {
      const known = KNOWN_METHODS.has(method) ? method : 'other';
      series = this.metric.series({ method: known, route: name, status: String(status) });
      byCall.set(call, series);
    }
    return series;
  }
}

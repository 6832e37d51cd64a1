import type { ProblemCode } from '@stevedore/middleware/core';
import type { Logger } from 'pino';
import { Counter, type Registry } from 'prom-client';

/**
 * Requests that were refused before there was a route to count them by: no HTTP, headers
 * that are too slow or too long, a path that is no text. The codes are the gateway's own.
 */
export class Refusals {
  readonly #log: Logger;
  readonly #counts = new Map<ProblemCode, number>();

  constructor(log: Logger) {
    this.#log = log;
  }

  note(code: ProblemCode, client: string | undefined): void {
    this.#counts.set(code, (this.#counts.get(code) ?? 0) + 1);
    this.#log.info({ code, client }, 'refused');
  }

  addTo(registry: Registry): void {
    const counts = this.#counts;
    new Counter({
      name: 'stevedore_http_refused_total',
      help: 'Requests refused before they had a route: no HTTP, headers too slow or too long.',
      labelNames: ['code'],
      registers: [registry],
      collect() {
        this.reset();
        for (const [code, count] of counts) this.inc({ code }, count);
      },
    });
  }
}

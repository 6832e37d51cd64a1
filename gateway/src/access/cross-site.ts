import type { IncomingHttpHeaders } from 'node:http';
import { ProblemError } from '@stevedore/middleware/core';

/**
 * Requests that a page of another site makes its visitor's browser send. Where no key is
 * asked for they would do whatever the visitor may do: writes are refused, unless
 * `corsOrigins` names the page's origin.
 */
export class CrossSite {
  readonly #origins: ReadonlySet<string>;

  constructor(corsOrigins: readonly string[]) {
    this.#origins = new Set(corsOrigins);
  }

  /** Throws `cross_site`. */
  demandOwn(headers: IncomingHttpHeaders): void {
    const { origin, host } = headers;
    if (this.#origins.has('*') || (origin !== undefined && this.#origins.has(origin))) return;
    const isForeign = origin !== undefined && hostOf(origin) !== host?.toLowerCase();
    if (!isForeign && headers['sec-fetch-site'] !== 'cross-site') return;
    throw new ProblemError(
      'cross_site',
      'A page of another origin may not write here while there are no API keys: name its origin in corsOrigins.',
    );
  }
}

/** Undefined for `null`, which pages without an origin send. */
function hostOf(origin: string): string | undefined {
  return URL.canParse(origin) ? new URL(origin).host : undefined;
}

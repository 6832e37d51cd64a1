import type { IncomingHttpHeaders } from 'node:http';
import { isIPv4 } from 'node:net';
import cors from '@fastify/cors';
import { ProblemError } from '@stevedore/middleware/core';
import type { FastifyInstance } from 'fastify';
import { isOwnPage, Origins, parseHost, parseOrigin } from '../http/origins.js';

/** Checks host names and page origins of requests. */

/**
 * The host names that the gateway serves. A page can resolve its own name to this machine (DNS
 * rebinding) and then read answers as its own. An open gateway, which relies on being reachable
 * from this machine alone, therefore serves local names only.
 */
export class HostNames {
  readonly #names: ReadonlySet<string>;
  /** The last accepted `Host`: it is nearly always the same. */
  #last = '';
  #isLastKnown = false;

  constructor(names: readonly string[]) {
    this.#names = new Set(names.map(nameOf));
  }

  /** `host` is the value of the header. */
  has(host: string): boolean {
    if (host === this.#last) return this.#isLastKnown;
    const name = nameOf(host);
    this.#isLastKnown = isLocal(name) || this.#names.has(name);
    this.#last = host;
    return this.#isLastKnown;
  }

  /** Throws `host_not_served`. A browser always names a host: HTTP/1.0 without one is a program's. */
  demand(host: string | undefined): void {
    if (host === undefined || this.has(host)) return;
    throw new ProblemError(
      'host_not_served',
      'The gateway is open, so it serves only local host names. Add this host to hostNames, or set apiKeys.',
    );
  }
}

/** Addresses by which a machine reaches itself. */
export function isLoopback(address: string): boolean {
  return isLocal(nameOf(address));
}

function nameOf(host: string): string {
  return parseHost(host)?.name ?? '';
}

function isLocal(name: string): boolean {
  if (name === 'localhost' || name.endsWith('.localhost')) return true;
  return name === '::1' || (isIPv4(name) && name.startsWith('127.'));
}

/**
 * A request with two hosts may mean one to the proxy in front and another here, so it is refused,
 * as RFC 9112 (section 3.2) demands. The HTTP server refuses one without a host. `names` are the
 * served names, if not all are.
 */
export function demandHost(app: FastifyInstance, names: HostNames | undefined): void {
  app.addHook('onRequest', ({ raw }, _reply, done) => {
    if (!hasOneHost(raw.rawHeaders)) {
      throw new ProblemError('bad_request', 'The request names more than one host.');
    }
    names?.demand(raw.headers.host);
    done();
  });
}

/** Names and values alternate. */
export function hasOneHost(rawHeaders: readonly string[]): boolean {
  let hosts = 0;
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index] ?? '';
    if (name.length === 4 && name.toLowerCase() === 'host') hosts += 1;
  }
  return hosts <= 1;
}

/**
 * Requests that a page of another site makes its visitor's browser send. Without API keys they
 * could do whatever the visitor may do, so writes are refused unless `corsOrigins` names the page's
 * origin.
 */
export class CrossSite {
  readonly #origins: Origins;

  constructor(corsOrigins: readonly string[]) {
    this.#origins = new Origins(corsOrigins);
  }

  /** Throws `cross_site`. */
  demandOwn({ origin, host, 'sec-fetch-site': site }: IncomingHttpHeaders): void {
    if (this.#origins.has(origin)) return;
    // Undefined for `null`, which pages without an origin send.
    const page = parseOrigin(origin ?? '');
    const isForeign = origin !== undefined && !(page && isOwnPage(page, host));
    if (!isForeign && site !== 'cross-site') return;
    throw new ProblemError(
      'cross_site',
      'Without API keys, pages of other origins may not write here. Add this origin to corsOrigins.',
    );
  }
}

/**
 * Cross-origin requests of browsers (Fetch, section 3.2): answered for the named origins only.
 * Credentials are never allowed: an API key is a header that a page sets, not a cookie.
 */

const METHODS = ['GET', 'HEAD', 'POST', 'PATCH', 'DELETE', 'OPTIONS'];
const EXPOSED = [
  'Accept-Ranges',
  'Content-Disposition',
  'Content-Location',
  'Content-Range',
  'ETag',
  'Idempotency-Replayed',
  'Idempotency-Scope',
  'Location',
  'Retry-After',
  'Tus-Checksum-Algorithm',
  'Tus-Extension',
  'Tus-Max-Size',
  'Tus-Resumable',
  'Tus-Version',
  'Upload-Concat',
  'Upload-Defer-Length',
  'Upload-Expires',
  'Upload-Length',
  'Upload-Metadata',
  'Upload-Offset',
  'X-File-Key',
];
const PREFLIGHT_SECONDS = 600;

export function allowOrigins(app: FastifyInstance, origins: readonly string[]): void {
  if (origins.length === 0) return;
  const known = new Origins(origins);
  app.register(cors, {
    // A function, not the list: an origin that is not listed does not learn which ones are.
    origin: known.isAll ? '*' : (origin, decide) => decide(null, known.has(origin)),
    methods: METHODS,
    exposedHeaders: EXPOSED,
    maxAge: PREFLIGHT_SECONDS,
    // Otherwise an OPTIONS request that is not a preflight would be refused in plain text.
    strictPreflight: false,
  });
}

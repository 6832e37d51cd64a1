import type { FastifyInstance } from 'fastify';

/**
 * Cross-origin requests of browsers (Fetch, section 3.2): answered for the origins
 * that are named, for nobody else. Credentials are never allowed: an API key is a
 * header that a page sets, not a cookie.
 */

const METHODS = 'GET, HEAD, POST, DELETE, OPTIONS';
const EXPOSED =
  'Accept-Ranges, Content-Disposition, Content-Range, ETag, Idempotency-Replayed, Location, Retry-After';
const PREFLIGHT_SECONDS = '600';

export function allowOrigins(app: FastifyInstance, origins: readonly string[]): void {
  if (origins.length === 0) return;
  const everyone = origins.includes('*');
  const known = new Set(origins);
  app.addHook('onRequest', (request, reply, done) => {
    const { origin } = request.headers;
    // For everyone it is always said: a cache may give the answer to a page later on.
    if (everyone) reply.header('access-control-allow-origin', '*');
    else reply.header('vary', 'Origin');
    if (origin === undefined || !(everyone || known.has(origin))) {
      if (everyone) reply.header('access-control-expose-headers', EXPOSED);
      done();
      return;
    }
    if (!everyone) reply.header('access-control-allow-origin', origin);
    if (request.method !== 'OPTIONS' || !request.headers['access-control-request-method']) {
      reply.header('access-control-expose-headers', EXPOSED);
      done();
      return;
    }
    const wantedHeaders = request.headers['access-control-request-headers'];
    if (wantedHeaders !== undefined) reply.header('access-control-allow-headers', wantedHeaders);
    reply
      .code(204)
      .header('access-control-allow-methods', METHODS)
      .header('access-control-max-age', PREFLIGHT_SECONDS)
      .send();
  });
}

import cors from '@fastify/cors';
import type { FastifyInstance } from 'fastify';

/**
 * Cross-origin requests of browsers (Fetch, section 3.2): answered for the origins
 * that are named, for nobody else. Credentials are never allowed: an API key is a
 * header that a page sets, not a cookie.
 */

const METHODS = ['GET', 'HEAD', 'POST', 'DELETE', 'OPTIONS'];
const EXPOSED = [
  'Accept-Ranges',
  'Content-Disposition',
  'Content-Range',
  'ETag',
  'Idempotency-Replayed',
  'Location',
  'Retry-After',
];
const PREFLIGHT_SECONDS = 600;

export function allowOrigins(app: FastifyInstance, origins: readonly string[]): void {
  if (origins.length === 0) return;
  const known = new Set<string | undefined>(origins);
  app.register(cors, {
    // A function, and not the list: an origin that is not in it is not even told what is allowed.
    origin: known.has('*') ? '*' : (origin, decide) => decide(null, known.has(origin)),
    methods: METHODS,
    exposedHeaders: EXPOSED,
    maxAge: PREFLIGHT_SECONDS,
    // An OPTIONS that is no preflight would be refused in plain text.
    strictPreflight: false,
  });
}

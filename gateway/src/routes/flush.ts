import { type FileStore, isStoreError } from '@stevedore/client';
import { type Files, ProblemError } from '@stevedore/middleware/core';
import type { FastifyInstance } from 'fastify';
import type { Access, AskedBy } from '../access/access.js';
import { answeringWith, route } from '../http/route.js';

/** Longest wait unless the request has another. */
const TIMEOUT_MS = 60_000;

/** `POST /flush`: stores what is staged. */
export function flushRoute(
  app: FastifyInstance,
  files: Files,
  access: Access,
  flush: FileStore['flush'],
): void {
  const POST = answeringWith(files)(async (request) => {
    const asked = request as AskedBy;
    await access.manage(asked);
    const { 'timeout-ms': given = String(TIMEOUT_MS) } = asked.query;
    if (typeof given !== 'string' || !/^\d{1,7}$/.test(given)) {
      throw new ProblemError('invalid_option', 'timeout-ms is a whole number, 3600000 at most.');
    }
    try {
      await flush({ timeoutMs: Number(given) });
    } catch (error) {
      if (!isStoreError(error, 'storage_unavailable')) throw error;
      throw new ProblemError('not_flushed', error.message, error);
    }
    return { status: 204, headers: { 'cache-control': 'no-store' } };
  });
  route(app, '/flush', { POST });
}

import { type FileStore, flushTimeoutOf, isStoreError } from '@stevedore/client';
import { type Files, ProblemError } from '@stevedore/middleware/core';
import type { FastifyInstance } from 'fastify';
import type { Access, AskedBy } from '../access/access.js';
import { answeringWith, route } from '../http/route.js';

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
    const { 'timeout-ms': given } = asked.query;
    const timeoutMs = flushTimeoutOf(given === undefined ? {} : { timeoutMs: Number(given) });
    try {
      await flush({ timeoutMs });
    } catch (error) {
      if (!isStoreError(error, 'storage_unavailable')) throw error;
      throw new ProblemError('not_flushed', error.message, error);
    }
    return { status: 204, headers: { 'cache-control': 'no-store' } };
  });
  route(app, '/flush', { POST });
}

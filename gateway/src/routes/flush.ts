import { isStoreError } from '@stevedore/client';
import { flushTimeoutOf, type GatewayStore } from '@stevedore/client/internal';
import { type Answer, type Files, ProblemError } from '@stevedore/middleware/core';
import type { FastifyInstance } from 'fastify';
import type { Access, AskedBy } from '../access/access.js';
import { answeringWith, route } from '../http/route.js';
import { listOptions } from './listing.js';
import { asPeer } from './peers.js';

interface FlushRoutes {
  readonly files: Files;
  readonly access: Access;
  readonly deployment: GatewayStore['deployment'];
  readonly flush: GatewayStore['flush'];
}

/**
 * `POST /flush` stores what is staged at all gateways of the deployment; `POST /peer/flush`, for the
 * other ones, what is staged at this one.
 */
export function flushRoutes(
  app: FastifyInstance,
  { files, access, deployment, flush }: FlushRoutes,
): void {
  const answering = answeringWith(files);
  const flushed = async ({ query }: AskedBy, onlyHere: boolean): Promise<Answer> => {
    const { 'timeout-ms': given } = query;
    const timeoutMs = flushTimeoutOf(given === undefined ? {} : { timeoutMs: Number(given) });
    try {
      return files.answer(await flush({ timeoutMs, onlyHere }));
    } catch (error) {
      if (!isStoreError(error, 'storage_unavailable')) throw error;
      throw new ProblemError('not_flushed', error.message, error);
    }
  };
  const POST = answering(async (request) => {
    const asked = request as AskedBy;
    await access.manage(asked);
    return flushed(asked, listOptions(asked.query).onlyHere ?? false);
  });
  route(app, '/flush', { POST });
  if (!deployment) return;
  const peer = asPeer(deployment, (request) => flushed(request as AskedBy, true));
  app.post('/peer/flush', answering(peer));
}

import { closeAfterReply, hasUnreadBody } from '@stevedore/middleware/core';
import type { FastifyInstance } from 'fastify';
import type { Limits } from '../limits.js';

/**
 * A body that comes with a request of another kind than an upload is never read,
 * and so never timed: it could arrive a byte a minute, or without end, and hold its
 * connection. The connection ends with the answer.
 */
export function refuseUnwantedBodies(app: FastifyInstance, limits: Limits): void {
  app.addHook('onRequest', ({ method, raw }, reply, done) => {
    if (method !== 'POST' && hasUnreadBody(raw)) {
      reply.header('connection', 'close');
      closeAfterReply(raw.socket, limits);
    }
    done();
  });
}

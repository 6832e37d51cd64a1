import {
  closeAfterReply,
  hasUnreadBody,
  type ProblemError,
  problemAnswer,
} from '@stevedore/middleware/core';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Limits } from '../limits.js';

/**
 * Answers with a problem. Where the request's body was not read to its end the
 * connection is closed: what is still under way on it is no request.
 */
export function sendProblem(
  request: FastifyRequest,
  reply: FastifyReply,
  problem: ProblemError,
  limits: Limits,
): void {
  const { raw } = request;
  if (raw.socket.destroyed) {
    // The client is gone.
    reply.hijack();
    reply.raw.destroy();
    return;
  }
  const { status, headers, body } = problemAnswer(problem);
  if (hasUnreadBody(raw)) {
    reply.header('connection', 'close');
    closeAfterReply(raw.socket, limits);
  }
  // As bytes: the framework would add a charset to the type, which has none.
  reply.code(status).headers(headers);
  if (raw.method === 'HEAD') reply.send();
  else reply.send(body);
}

import type { IncomingMessage } from 'node:http';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Limits } from '../limits.js';
import { PROBLEM_TYPE, type ProblemError, problemBody, retryAfterSeconds } from '../problems.js';
import { closeAfterReply } from './linger.js';

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
    // The client is gone: there is nobody to answer.
    reply.hijack();
    reply.raw.destroy();
    return;
  }
  const body = problemBody(problem.code, problem.message);
  const retryAfter = retryAfterSeconds(problem.code);
  if (retryAfter !== undefined) reply.header('retry-after', String(retryAfter));
  if (hasUnreadBody(raw)) {
    reply.header('connection', 'close');
    closeAfterReply(raw.socket, limits);
  }
  // As bytes: the framework would add a charset to the type, which has none.
  const bytes = Buffer.from(JSON.stringify(body));
  reply
    .code(body.status)
    .header('content-type', PROBLEM_TYPE)
    .header('cache-control', 'no-store')
    .header('x-content-type-options', 'nosniff')
    .header('content-length', String(bytes.length));
  if (raw.method === 'HEAD') reply.send();
  else reply.send(bytes);
}

/** `complete` alone would not do: it is still false while the handler of a GET runs. */
function hasUnreadBody({ complete, headers }: IncomingMessage): boolean {
  if (complete) return false;
  const length = headers['content-length'];
  return headers['transfer-encoding'] !== undefined || (length !== undefined && length !== '0');
}

import { ProblemError } from '@stevedore/middleware/core';
import type { FastifyInstance } from 'fastify';

/**
 * A request that names two hosts may mean one to the proxy in front and the other here: it
 * is refused, as RFC 9112 (section 3.2) demands. That there is one at all is seen to by
 * the HTTP server.
 */
export function demandOneHost(app: FastifyInstance): void {
  app.addHook('onRequest', ({ raw }, _reply, done) => {
    if (hasOneHost(raw.rawHeaders)) done();
    else done(new ProblemError('bad_request', 'The request names more than one host.'));
  });
}

/** Names and values in turns. */
function hasOneHost(rawHeaders: readonly string[]): boolean {
  let hosts = 0;
  for (let index = 0; index < rawHeaders.length; index += 2) {
    if (isHost(rawHeaders[index]!)) hosts += 1;
  }
  return hosts <= 1;
}

export function isHost(name: string): boolean {
  return name.length === 4 && name.toLowerCase() === 'host';
}

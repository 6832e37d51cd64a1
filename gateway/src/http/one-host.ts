import { ProblemError } from '@stevedore/middleware/core';
import type { FastifyInstance } from 'fastify';
import type { HostNames } from '../access/hosts.js';

/**
 * A request that names two hosts may mean one to the proxy in front and the other here: it
 * is refused, as RFC 9112 (section 3.2) demands. That there is one at all is seen to by
 * the HTTP server. `names` are those to serve, where not every one is.
 */
export function demandHost(app: FastifyInstance, names: HostNames | undefined): void {
  app.addHook('onRequest', async ({ raw }) => {
    if (!hasOneHost(raw.rawHeaders)) {
      throw new ProblemError('bad_request', 'The request names more than one host.');
    }
    names?.demand(raw.headers.host);
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

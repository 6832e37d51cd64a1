import { ProblemError } from '@stevedore/middleware/core';
import type { FastifyInstance } from 'fastify';
import type { Connections } from './connections.js';

/**
 * Shutdown of the HTTP side: requests under way are finished, new ones on open
 * connections are answered with `shutting_down`, and connections without a
 * request are ended, so that nothing idle holds the process.
 */

const CLOSE_IDLE_INTERVAL_MS = 50;

export function refuseWhileClosing(app: FastifyInstance, connections: Connections): void {
  const { server } = app;
  let closing = false;

  const closeIdle = (): void => {
    server.closeIdleConnections();
    // The server counts a connection that was opened ahead of any request as busy.
    connections.closeUnused();
  };

  app.addHook('preClose', async () => {
    closing = true;
    closeIdle();
    // A connection that had a request at first is idle once that is answered.
    const timer = setInterval(closeIdle, CLOSE_IDLE_INTERVAL_MS).unref();
    server.once('close', () => clearInterval(timer));
  });
  app.addHook('onRequest', (_request, _reply, done) => {
    if (closing) done(new ProblemError('shutting_down', 'The gateway is shutting down.'));
    else done();
  });
}

import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { type FileStore, isPeerToken, PEER_HEADER, tunnelName } from '@stevedore/client';
import { ProblemError } from '@stevedore/middleware/core';
import type { FastifyInstance } from 'fastify';
import type { Answering } from '../http/route.js';

/**
 * Copies for other gateways of the deployment, authenticated by the secret that they share.
 * `CONNECT copies-ORIGIN:1` opens the connection over which a gateway sends what it stages; frames
 * follow in both directions. `DELETE /peer/copies/ORIGIN` drops the copies of a gateway that has
 * another partner now.
 */

/** A live gateway sends something every second. */
const IDLE_MS = 15_000;
const TARGET = /^copies-(\d{1,5}):1$/;
const REFUSED = 'HTTP/1.1 404 Not Found\r\nConnection: close\r\nContent-Length: 0\r\n\r\n';

type Asked = Pick<IncomingMessage, 'method' | 'url' | 'headers'>;

export function peerCopies(
  app: FastifyInstance,
  { deployment, held }: Pick<FileStore, 'deployment' | 'held'>,
  answering: Answering,
): void {
  if (!held) return;
  const open = new Set<Duplex>();
  const isPeer = ({ method = '', url = '', headers }: Asked): boolean => {
    const token = headers[PEER_HEADER];
    const secret = deployment?.secret;
    return (
      secret !== undefined && typeof token === 'string' && isPeerToken(token, secret, method, url)
    );
  };
  const take = (request: IncomingMessage, socket: Duplex, head: Buffer): void => {
    socket.on('error', () => undefined);
    const origin = TARGET.exec(request.url ?? '')?.[1];
    if (origin === undefined || !isPeer(request) || tunnelName(Number(origin)) !== request.url) {
      socket.end(REFUSED);
      return;
    }
    open.add(socket);
    socket.once('close', () => open.delete(socket));
    request.socket.setNoDelay(true).setTimeout(IDLE_MS, () => socket.destroy());
    socket.write('HTTP/1.1 200 OK\r\n\r\n');
    if (head.length > 0) socket.unshift(head);
    void held.receive(Number(origin), socket);
  };
  app.server.on('connect', take);
  app.addHook('preClose', async () => {
    app.server.off('connect', take);
    for (const socket of open) socket.destroy();
  });
  app.delete(
    '/peer/copies/:origin',
    { schema: { hide: true } },
    answering(async (request) => {
      const { origin } = request.params as { readonly origin: string };
      if (!isPeer(request.raw) || !/^\d{1,5}$/.test(origin)) {
        throw new ProblemError('route_not_found', 'There is nothing at this path.');
      }
      return { status: (await held.drop(Number(origin))) ? 204 : 409, headers: {} };
    }),
  );
}

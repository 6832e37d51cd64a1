import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import {
  answerProof,
  type FileStore,
  isPeerToken,
  PEER_HEADER,
  tunnelName,
} from '@stevedore/client';
import type { FastifyInstance } from 'fastify';

/**
 * Copies for other gateways of the deployment, authenticated by the secret that they share.
 * `CONNECT copies-ORIGIN:1` opens the connection over which a gateway sends what it stages; frames
 * follow in both directions.
 */

/** A live gateway sends something every second. */
const IDLE_MS = 15_000;
/** The others close their connections once they hear that this gateway leaves. */
const LEAVE_MS = 1_000;
const TARGET = /^copies-(\d{1,5}):1$/;
const REFUSED = 'HTTP/1.1 404 Not Found\r\nConnection: close\r\nContent-Length: 0\r\n\r\n';

export function peerCopies(
  app: FastifyInstance,
  { deployment, copies }: Pick<FileStore, 'deployment' | 'copies'>,
): void {
  if (!copies) return;
  const open = new Set<Duplex>();
  const take = (request: IncomingMessage, socket: Duplex, head: Buffer): void => {
    socket.on('error', () => undefined);
    const { method = '', url = '', headers } = request;
    const token = headers[PEER_HEADER];
    const origin = TARGET.exec(url)?.[1];
    const isPeer = deployment?.secret !== undefined && isPeerToken(token, deployment, method, url);
    if (origin === undefined || !isPeer || tunnelName(Number(origin)) !== url) {
      socket.end(REFUSED);
      return;
    }
    open.add(socket);
    socket.once('close', () => open.delete(socket));
    request.socket.setNoDelay(true).setTimeout(IDLE_MS, () => socket.destroy());
    const proof = answerProof(deployment, token, 200);
    socket.write(`HTTP/1.1 200 OK\r\n${PEER_HEADER}: ${proof}\r\n\r\n`);
    if (head.length > 0) socket.unshift(head);
    void copies.receive(Number(origin), socket);
  };
  app.server.on('connect', take);
  app.addHook('preClose', async () => {
    copies.leave();
    const timer = setTimeout(() => {
      for (const socket of open) socket.destroy();
    }, LEAVE_MS);
    app.server.once('close', () => clearTimeout(timer));
  });
}

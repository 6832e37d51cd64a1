import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import type { BodyLimits } from '../limits.js';

/**
 * Closes a connection on which a body is still arriving so that the client gets
 * to read the answer. Closing a socket with unread bytes resets it, and a reset
 * may overtake the answer; so our side is ended first, and what still comes in
 * is thrown away for a moment. Beyond a bound it is left where it is: the client
 * cannot send on, but reads the answer.
 */
export function closeAfterReply(socket: Socket, limits: BodyLimits): void {
  // Called by the HTTP server once the last byte of the answer has been handed over.
  socket.destroySoon = () => linger(socket, limits);
}

function linger(socket: Socket, limits: BodyLimits): void {
  if (socket.destroyed) return;
  let discardedBytes = 0;
  const cut = (): void => {
    socket.destroy();
  };
  const timer = setTimeout(cut, limits.lingerMs);
  socket.on('error', cut);
  socket.once('close', () => clearTimeout(timer));
  socket.once('end', cut);
  socket.on('data', (chunk: Buffer) => {
    discardedBytes += chunk.length;
    if (discardedBytes > limits.maxLingerBytes) socket.pause();
  });
  socket.end();
}

/**
 * True if bytes of the request's body may still be under way. `complete` alone
 * would not do: it is still false while the handler of a GET runs.
 */
export function hasUnreadBody({ complete, headers }: IncomingMessage): boolean {
  if (complete) return false;
  const length = headers['content-length'];
  return headers['transfer-encoding'] !== undefined || (length !== undefined && length !== '0');
}

import type { Socket } from 'node:net';
import type { Limits } from '../limits.js';

/**
 * Closes a connection on which a body is still arriving so that the client gets
 * to read the answer. Closing a socket with unread bytes resets it, and a reset
 * may overtake the answer; so our side is ended first, and what still comes in
 * is thrown away for a moment, within bounds.
 */
export function closeAfterReply(socket: Socket, limits: Limits): void {
  // Called by the HTTP server once the last byte of the answer has been handed over.
  socket.destroySoon = () => linger(socket, limits);
}

function linger(socket: Socket, limits: Limits): void {
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
    if (discardedBytes > limits.maxLingerBytes) cut();
  });
  socket.end();
}

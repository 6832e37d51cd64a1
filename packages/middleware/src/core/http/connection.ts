import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { TransferLimits } from '../limits.js';

/**
 * Serves one request of a connection at a time, and closes it only after the answer.
 *
 * A client may send many requests without waiting for answers (pipelining). Each starts when the
 * previous answer is sent. The number of waiting requests is bounded over all connections; a
 * connection that exceeds it is closed.
 */

/** Memory of each: two to three KiB. */
const MAX_WAITING = 8_192;
/** Tells the HTTP parser of Node.js that this is the last request of the connection. */
const LAST_REQUEST = 2;

type Resolve = (isItsTurn: boolean) => void;

export class Turns {
  readonly #maxWaiting: number;
  readonly #waiting = new Map<Socket, Set<Resolve>>();
  #count = 0;

  constructor(maxWaiting = MAX_WAITING) {
    this.#maxWaiting = maxWaiting;
  }

  /**
   * Undefined if it is the request's turn already, as for most. Otherwise resolves when it is, or
   * with false if the connection ended before.
   */
  wait({ socket }: IncomingMessage, response: ServerResponse): Promise<boolean> | undefined {
    // The HTTP server sends one answer after another on the connection.
    if (response.socket !== null) return undefined;
    if (this.#count >= this.#maxWaiting) end(socket);
    if (socket.destroyed) return Promise.resolve(false);
    return new Promise((resolve) => {
      this.#waitingOn(socket).add(resolve);
      this.#count += 1;
      response.once('socket', () => {
        if (!this.#waiting.get(socket)?.delete(resolve)) return;
        this.#count -= 1;
        resolve(true);
      });
    });
  }

  #waitingOn(socket: Socket): Set<Resolve> {
    const known = this.#waiting.get(socket);
    if (known) return known;
    const waiting = new Set<Resolve>();
    this.#waiting.set(socket, waiting);
    socket.once('close', () => {
      this.#waiting.delete(socket);
      this.#count -= waiting.size;
      for (const resolve of waiting) resolve(false);
    });
    return waiting;
  }
}

/**
 * Closes the connection and stops parsing: one read can contain a thousand requests. The parser is no
 * part of Node's interface: where it is not found, they are parsed and dropped.
 */
function end(socket: Socket): void {
  const { parser } = socket as { parser?: { onIncoming?: () => number } | null };
  if (parser?.onIncoming) parser.onIncoming = () => LAST_REQUEST;
  socket.destroy();
}

/**
 * Closes a connection on which a body is still arriving, so that the client can read the answer.
 * Closing a socket with unread bytes resets it, and the reset may overtake the answer. So the
 * server ends its side first and discards what arrives for a moment. Beyond a limit it stops
 * reading: the client can send no more, but still reads the answer.
 */
export function closeAfterReply(socket: Socket, limits: TransferLimits): void {
  // Called by the HTTP server once the last byte of the answer has been handed over.
  socket.destroySoon = () => linger(socket, limits);
}

function linger(socket: Socket, limits: TransferLimits): void {
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
 * True if bytes of the request's body may still arrive. `complete` alone does not tell: it is still
 * false while the handler of a GET runs.
 */
export function hasUnreadBody({ complete, headers }: IncomingMessage): boolean {
  if (complete) return false;
  const length = headers['content-length'];
  return headers['transfer-encoding'] !== undefined || (length !== undefined && length !== '0');
}

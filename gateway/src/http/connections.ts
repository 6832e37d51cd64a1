import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { Turns, type UnsentBytes } from '@stevedore/middleware/core';

/**
 * The connections of HTTP clients: a bounded number, and one request at a time on each.
 * When one too many comes, the one that has been without a request for longest is closed,
 * or else the download whose client has been stalled for longest.
 */

type RequestHandler = (request: IncomingMessage, response: ServerResponse) => void;

export class Connections {
  readonly #maxConnections: number;
  readonly #unsent: UnsentBytes;
  readonly #turns = new Turns();
  readonly #open = new Set<Socket>();
  /** Those without a request, the longest first. */
  readonly #idle = new Set<Socket>();

  constructor(maxConnections: number, unsent: UnsentBytes) {
    this.#maxConnections = maxConnections;
    this.#unsent = unsent;
  }

  /** Puts itself before the handlers of a server's requests. */
  attach(server: Server): void {
    const handlers = server.listeners('request') as RequestHandler[];
    server.removeAllListeners('request');
    server.on('request', (request: IncomingMessage, response: ServerResponse) => {
      const begin = (): void => {
        this.#note(request.socket, response);
        for (const handle of handlers) handle.call(server, request, response);
      };
      const turn = this.#turns.wait(request, response);
      if (turn) turn.then((isItsTurn) => isItsTurn && begin());
      else begin();
    });
    server.prependListener('connection', (socket: Socket) => this.#accept(socket));
  }

  /** Closes connections on which no request ever came. */
  closeUnused(): void {
    for (const socket of this.#idle) if (socket.bytesRead === 0) socket.destroy();
  }

  #accept(socket: Socket): void {
    if (this.#open.size >= this.#maxConnections && !this.#makeRoom()) {
      socket.destroy();
      return;
    }
    this.#open.add(socket);
    this.#idle.add(socket);
    socket.once('close', () => {
      this.#open.delete(socket);
      this.#idle.delete(socket);
    });
  }

  #makeRoom(): boolean {
    const [idle] = this.#idle;
    if (!idle) return this.#unsent.endLongestStalled();
    this.#idle.delete(idle);
    this.#open.delete(idle);
    idle.destroy();
    return true;
  }

  #note(socket: Socket, response: ServerResponse): void {
    this.#idle.delete(socket);
    response.once('close', () => {
      if (this.#open.has(socket)) this.#idle.add(socket);
    });
  }
}

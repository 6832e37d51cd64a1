import {
  createServer,
  type IncomingMessage,
  type RequestListener,
  type Server,
  type ServerResponse,
} from 'node:http';
import { Server as NetServer, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  closeAfterReply,
  PROBLEM_TYPE,
  type ProblemCode,
  ProblemError,
  problemBody,
  Turns,
  type UnsentBytes,
} from '@stevedore/middleware/core';
import type { FastifyInstance } from 'fastify';
import type { Limits } from '../options.js';

/**
 * The HTTP server and the connections of its clients, until shutdown: a bounded number, with one
 * request at a time on each. When one too many arrives, the connection that has been idle longest
 * is closed, or else the download that has been stalled longest.
 */

/** Node reads as much at once: a small upload is then never paused in its middle. */
const READ_BYTES = 64 * 1024;

/** Answers a request past the framework; false if it does not. */
export type Take = (request: IncomingMessage, response: ServerResponse) => boolean;

export class Connections {
  readonly #limits: Limits;
  readonly #unsent: UnsentBytes;
  readonly #turns = new Turns();
  readonly #open = new Set<Socket>();
  /** Connections without a request, the longest idle first. */
  readonly #idle = new Set<Socket>();
  readonly #leaving: AbortSignal | undefined;

  /** From `leaving` on, each answer ends its connection. */
  constructor(limits: Limits, unsent: UnsentBytes, leaving?: AbortSignal) {
    this.#limits = limits;
    this.#unsent = unsent;
    this.#leaving = leaving;
  }

  /** A server of these connections. `handle` gets the requests that none of `takes` answers. */
  serve(takes: readonly Take[], handle: RequestListener): Server {
    const { headerTimeoutMs, checkIntervalMs, keepAliveMs, idleMs } = this.#limits;
    const server = createServer({
      headersTimeout: headerTimeoutMs,
      connectionsCheckingInterval: checkIntervalMs,
      requireHostHeader: true,
      highWaterMark: READ_BYTES,
      keepAliveTimeout: keepAliveMs,
      // No timeout for a whole request: uploads may take long as long as they progress.
      requestTimeout: 0,
    });
    server.setTimeout(idleMs);
    const listener: RequestListener = (request, response) => {
      const begin = (): void => {
        if (this.#leaving?.aborted) response.shouldKeepAlive = false;
        this.#note(request.socket, response);
        for (const take of takes) if (take(request, response)) return;
        handle(request, response);
      };
      const turn = this.#turns.wait(request, response);
      if (turn) turn.then((isItsTurn) => isItsTurn && begin());
      else begin();
    };
    server.on('request', listener);
    // The upload itself answers `Expect: 100-continue`, once it has read the headers.
    server.on('checkContinue', listener);
    server.on('connection', (socket: Socket) => this.#accept(socket));
    return server;
  }

  /** Closes connections on which no request ever arrived. */
  closeUnused(): void {
    for (const socket of this.#idle) if (socket.bytesRead === 0) socket.destroy();
  }

  #accept(socket: Socket): void {
    if (this.#open.size >= this.#limits.maxConnections && !this.#makeRoom()) {
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
    response.on('close', () => {
      if (this.#open.has(socket)) this.#idle.add(socket);
    });
  }
}

/** Connections with a next request on the way get this long to have it answered. */
const LEAVE_MS = 800;
const LEAVE_LOOK_MS = 20;
/** Time for the requests of the connections that were accepted last to arrive. */
const LAST_REQUESTS_MS = 100;

/**
 * Before the shutdown: all requests are served for a while, and each answer ends its connection, so
 * that no proxy sends a request to a connection that is being closed. Then no connection is
 * accepted any more, which a proxy sees before it has sent anything.
 */
export async function leaveConnections(server: Server): Promise<void> {
  const isConnected = () =>
    new Promise<boolean>((resolve) => {
      server.getConnections((_, count) => resolve(count > 0));
    });
  for (let left = LEAVE_MS; left > 0 && (await isConnected()); left -= LEAVE_LOOK_MS) {
    await sleep(LEAVE_LOOK_MS);
  }
  // The HTTP server's own `close` would end idle connections with it.
  NetServer.prototype.close.call(server);
  if (await isConnected()) await sleep(LAST_REQUESTS_MS);
}

/**
 * Shutdown of the HTTP side: requests in progress are finished, new ones on open connections are
 * answered with `shutting_down`, and idle connections are closed, so that nothing idle keeps the
 * process alive.
 */

const CLOSE_IDLE_INTERVAL_MS = 50;

export function refuseWhileClosing(app: FastifyInstance, connections: Connections): void {
  const { server } = app;
  let closing = false;

  const closeIdle = (): void => {
    server.closeIdleConnections();
    // The server counts a connection that was opened before any request as busy.
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

/**
 * Answers bytes that are not an HTTP request, for which there is no request object, and closes the
 * connection. Returns the answer's code; undefined if the client has gone.
 */
export function answerClientError(
  error: Error & { readonly code?: string },
  socket: Socket,
  limits: Limits,
): ProblemCode | undefined {
  if (error.code === 'ECONNRESET' || socket.destroyed || !socket.writable) {
    socket.destroy();
    return undefined;
  }
  const [code, message] = describe(error.code);
  const body = problemBody(code, message);
  const text = JSON.stringify(body);
  closeAfterReply(socket, limits);
  socket.write(
    `HTTP/1.1 ${body.status} ${body.title}\r\n` +
      `Content-Type: ${PROBLEM_TYPE}\r\n` +
      `Content-Length: ${Buffer.byteLength(text)}\r\n` +
      `Connection: close\r\n\r\n${text}`,
  );
  socket.destroySoon();
  return code;
}

function describe(code: string | undefined): readonly [ProblemCode, string] {
  switch (code) {
    case 'HPE_HEADER_OVERFLOW':
      return ['headers_too_large', 'The headers of the request are too large.'];
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return ['header_timeout', 'The headers of the request took too long.'];
    default:
      return ['bad_request', 'This is not a well-formed HTTP/1.1 request.'];
  }
}

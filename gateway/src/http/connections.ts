import {
  createServer,
  type IncomingMessage,
  type RequestListener,
  type Server,
  type ServerResponse,
} from 'node:http';
import { Server as NetServer, type Socket } from 'node:net';
import { setImmediate as immediate, setTimeout as sleep } from 'node:timers/promises';
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

declare module 'fastify' {
  interface FastifyInstance {
    /** Has clients and proxies leave before the app is closed. */
    leave: () => Promise<void>;
  }
}

/** So long the gateway says that it is not ready, and accepts connections nevertheless. */
const NOTICE_MS = 800;
const LEAVE_LOOK_MS = 20;
const QUIET_MS = 500;

/** Answers a request past the framework; false if it does not. */
export type Take = (request: IncomingMessage, response: ServerResponse) => boolean;

export class Connections {
  readonly #limits: Limits;
  readonly #unsent: UnsentBytes;
  readonly #turns = new Turns();
  readonly #open = new Set<Socket>();
  /** Connections without a request, the longest idle first. */
  readonly #idle = new Set<Socket>();
  /** When the last request began, or the last connection. */
  #usedAt = 0;
  #isLeaving = false;
  /** No connection is accepted any more. */
  #isClosed = false;

  constructor(limits: Limits, unsent: UnsentBytes) {
    this.#limits = limits;
    this.#unsent = unsent;
  }

  /** True from the call of `leave` on. */
  get isLeaving(): boolean {
    return this.#isLeaving;
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
        if (this.#isClosed) response.shouldKeepAlive = false;
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
    // A tunnel of another gateway is no client's connection any more.
    server.on('connect', ({ socket }) => this.#forget(socket));
    return server;
  }

  /**
   * Before the shutdown. For a while, whoever asks whether the gateway is ready learns that it is
   * not, and every request is served; connections are kept, so that a proxy opens hardly any new one.
   * Then none is accepted any more, which a proxy sees before it has sent anything, so that its
   * traffic uses up the connections that it has: each answer ends one. Those that are left are closed once no request has come for a while: none is on its
   * way to them. Resolves when all are closed, or after the limit for requests in progress.
   */
  async leave(server: Server): Promise<void> {
    this.#isLeaving = true;
    const begun = performance.now();
    const isDone = (limitMs: number) =>
      this.#open.size === 0 || performance.now() - begun >= limitMs;
    while (!isDone(NOTICE_MS)) await sleep(LEAVE_LOOK_MS);
    await nothingWaits();
    // The HTTP server's own `close` would end idle connections with it.
    NetServer.prototype.close.call(server);
    this.#isClosed = true;
    while (!isDone(this.#limits.drainMs)) {
      await sleep(LEAVE_LOOK_MS);
      // What has arrived while the process stood still is read first.
      await immediate();
      if (performance.now() - Math.max(this.#usedAt, begun) < QUIET_MS) continue;
      for (const socket of this.#idle) socket.destroy();
    }
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
    this.#usedAt = performance.now();
    socket.once('close', () => this.#forget(socket));
  }

  #forget(socket: Socket): void {
    this.#open.delete(socket);
    this.#idle.delete(socket);
  }

  #makeRoom(): boolean {
    const [idle] = this.#idle;
    if (!idle) return this.#unsent.endLongestStalled();
    this.#forget(idle);
    idle.destroy();
    return true;
  }

  #note(socket: Socket, response: ServerResponse): void {
    this.#idle.delete(socket);
    this.#usedAt = performance.now();
    response.on('close', () => {
      if (this.#open.has(socket)) this.#idle.add(socket);
    });
  }
}

/** A turn of the event loop so short has found nothing at its sockets. */
const QUIET_TURN_MS = 0.05;
/** After so long, twice as much is quiet: a busy loop must not wait for ever. */
const LESS_QUIET_MS = 100;

/**
 * Resolves when no connection waits to be accepted. The system resets those that do when the port is
 * closed, and a proxy may have sent a request over them.
 */
async function nothingWaits(): Promise<void> {
  const begun = performance.now();
  for (let last = begun; ; ) {
    await immediate();
    const now = performance.now();
    if (now - last <= QUIET_TURN_MS * 2 ** ((now - begun) / LESS_QUIET_MS)) return;
    last = now;
  }
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

import { setTimeout as sleep } from 'node:timers/promises';
import { type Command, type PayloadCommand, ProtocolError } from '@stevedore/protocol';
import type { Address } from '../address.js';
import { AuthenticationError, ConnectionError, StatusError } from '../errors.js';
import type { AccessSettings } from '../server/guard.js';
import { authenticate } from './authentication.js';
import { BodySource } from './body-source.js';
import { Caller } from './caller.js';
import type { Connection } from './connection.js';
import { MAX_TIMER_MS } from './pool.js';
import type { Call } from './reply.js';

/**
 * A session with another daemon: requests over connections that are opened on demand. When the other
 * end closes one, all are closed and the peer has ended, because what was agreed on them may no
 * longer hold. An answer with an error status is a StatusError and ends nothing.
 */

export interface PeerOptions {
  readonly address: Address;
  /** Address to connect from: servers tell storages apart by it. */
  readonly localAddress?: string | undefined;
  /** Longest silence of the peer. */
  readonly timeoutMs: number;
  /** With a secret, the peer must have it too, unless `withoutSecret` is `all`. */
  readonly access?: PeerAccess;
  /** Requests in flight at a time. Default 1. */
  readonly maxConnections?: number;
  /** Runs first on every new connection. */
  readonly hello?: (ask: Ask) => Promise<void>;
}

export type PeerAccess = Pick<AccessSettings, 'secret' | 'withoutSecret'>;

type Ask = <Request, Answer>(
  command: Command<Request, Answer>,
  request: Request,
  flags?: number,
) => Promise<Answer>;

const MAX_REPLY_BYTES = 1024 * 1024;

export class Peer {
  /** Resolves when the peer or its owner has closed the connections. */
  readonly ended: Promise<void>;
  readonly #options: PeerOptions;
  readonly #caller: Caller;
  #hasEnded = false;
  #end: () => void = () => {};
  #remoteAddress = '';
  /** The peer has no secret and may do without. */
  #isPlain = false;

  private constructor(options: PeerOptions) {
    this.#options = options;
    const { localAddress, timeoutMs, maxConnections = 1 } = options;
    this.ended = new Promise((resolve) => {
      this.#end = resolve;
    });
    this.#caller = new Caller({
      maxConnections,
      maxConnectionsPerAddress: maxConnections,
      maxQueuedPerAddress: Number.POSITIVE_INFINITY,
      leaseTimeoutMs: MAX_TIMER_MS,
      connectTimeoutMs: timeoutMs,
      idleTimeoutMs: timeoutMs,
      maxIdleMs: Number.POSITIVE_INFINITY,
      socket: { keepAlive: true, localAddress },
      hello: (connection, connected) => this.#hello(connection, connected),
      onLost: () => this.close(),
    });
  }

  /**
   * Resolves when the peer is connected; `signal` closes it. Rejects with ConnectionError,
   * AuthenticationError or the error of `hello`.
   */
  static async open(options: PeerOptions, signal?: AbortSignal): Promise<Peer> {
    const peer = new Peer(options);
    const close = (): void => peer.close();
    signal?.addEventListener('abort', close);
    void peer.ended.then(() => signal?.removeEventListener('abort', close));
    if (signal?.aborted) close();
    try {
      await peer.#connect().catch((error) => {
        if (!peer.#isPlain) throw error;
        return peer.#connect();
      });
      return peer;
    } catch (error) {
      peer.close();
      throw error;
    }
  }

  /** Sends one request over a connection of its own. */
  static async ask<Request, Answer>(
    options: PeerOptions,
    command: Command<Request, Answer>,
    request: Request,
    signal?: AbortSignal,
  ): Promise<Answer> {
    const peer = await Peer.open(options, signal);
    try {
      return await peer.ask(command, request);
    } finally {
      peer.close();
    }
  }

  get hasEnded(): boolean {
    return this.#hasEnded;
  }

  /** The peer's address as the system reports it, even if it was named by host name. */
  get remoteAddress(): string {
    return this.#remoteAddress;
  }

  ask<Request, Answer>(
    command: Command<Request, Answer>,
    request: Request,
    flags = 0,
  ): Promise<Answer> {
    const plan = { flags, maxReplyBytes: MAX_REPLY_BYTES };
    return this.#caller.call(this.#options.address, command, request, REQUEST, plan);
  }

  /** Sends a request with `payloadBytes(request)` bytes, read piece by piece. */
  send<Request, Answer>(
    command: PayloadCommand<Request, Answer>,
    request: Request,
    read: (position: number) => Promise<Buffer>,
  ): Promise<Answer> {
    const bytes = command.payloadBytes(request);
    const chunks = async function* (): AsyncGenerator<Buffer> {
      for (let at = 0; at < bytes; ) {
        const chunk = await read(at);
        if (chunk.length === 0) throw new TypeError('a request without all of its bytes');
        at += chunk.length;
        yield chunk;
      }
    };
    const body = new BodySource(chunks, bytes, true);
    return this.#caller.callWithPayload(this.#options.address, command, request, body, REQUEST);
  }

  close(): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    void this.#caller.pool.close();
    this.#end();
  }

  async #connect(): Promise<void> {
    const { pool } = this.#caller;
    pool.release(await pool.lease(this.#options.address, REQUEST, MAX_TIMER_MS));
  }

  async #hello(connection: Connection, connected: Promise<void>): Promise<void> {
    const { address, timeoutMs, access, hello } = this.#options;
    await connected;
    this.#remoteAddress = connection.remoteAddress;
    if (access?.secret !== undefined && !this.#isPlain) {
      if (!(await authenticate(connection, access.secret, REQUEST, timeoutMs))) {
        this.#isPlain = access.withoutSecret === 'all';
        throw new AuthenticationError(
          `${address.text} has no secret, or is no server of Stevedore`,
        );
      }
    }
    await hello?.((command, request, flags = 0) =>
      this.#caller.askOver(connection, command, request, REQUEST, { flags }),
    );
  }
}

/** Requests of daemons end with their answer, their connection or a timeout. */
const REQUEST: Call = {
  throwIfEnded: () => {},
  watch: () => {},
  unwatch: () => {},
  refused: (command, status) => new StatusError(status, command),
  error(code, message, { address = '', cause } = {}) {
    if (code === 'access_denied') return new AuthenticationError(`${message} (${address})`);
    if (cause instanceof ProtocolError) return cause;
    return new ConnectionError(
      code === 'connect_failed' || code === 'timeout' ? code : 'connection_lost',
      // The system's own message names it already.
      message.includes(address) ? message : `${message} (${address})`,
      cause,
    );
  },
};

/**
 * Runs sessions one after the other until the signal, whatever ends them, with a pause between two
 * that nothing but the signal shortens. Reports only the first failure in a row.
 */
export async function keepSession({ signal, session, pauseMs, report }: Sessions): Promise<void> {
  let hasFailed = false;
  while (!signal.aborted) {
    try {
      await session(() => {
        hasFailed = false;
      });
    } catch (error) {
      if (!hasFailed && !signal.aborted) report(error);
      hasFailed = true;
    }
    await sleep(pauseMs(), undefined, { signal, ref: false }).catch(() => {});
  }
}

interface Sessions {
  readonly signal: AbortSignal;
  /** Calls `serves` once it has done something useful. */
  readonly session: (serves: () => void) => Promise<void>;
  /** Between two sessions. */
  readonly pauseMs: () => number;
  readonly report: (error: unknown) => void;
}

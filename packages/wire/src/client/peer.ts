import {
  type Command,
  encodeRequest,
  encodeRequestHead,
  type PayloadCommand,
  ProtocolError,
  Status,
} from '@stevedore/protocol';
import type { Address } from '../address.js';
import { AuthenticationError, ConnectionError, StatusError } from '../errors.js';
import type { AccessSettings } from '../server/guard.js';
import { authenticate } from './authentication.js';
import { BodySource } from './body-source.js';
import type { Connection } from './connection.js';
import { MAX_TIMER_MS, Pool } from './pool.js';
import type { Call } from './reply-reader.js';
import { CollectedReply, ReplyReader } from './reply-reader.js';

/**
 * Requests to another daemon, over connections that are opened on demand, each with one request at
 * a time. When the other end closes one, all are closed and the peer has ended, because what was
 * agreed on them may no longer hold. An answer with an error status is a StatusError and ends
 * nothing, except that status 22 closes its connection.
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
  readonly #pool: Pool;
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
    this.#pool = new Pool({
      maxConnections,
      maxConnectionsPerAddress: maxConnections,
      maxQueuedPerAddress: Number.POSITIVE_INFINITY,
      leaseTimeoutMs: MAX_TIMER_MS,
      connectTimeoutMs: timeoutMs,
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
      const connection = await peer.#lease().catch((error) => {
        if (!peer.#isPlain) throw error;
        return peer.#lease();
      });
      peer.#pool.release(connection);
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

  async ask<Request, Answer>(
    command: Command<Request, Answer>,
    request: Request,
    flags = 0,
  ): Promise<Answer> {
    const connection = await this.#lease();
    try {
      return await this.#ask(connection, command, request, flags);
    } finally {
      this.#pool.release(connection);
    }
  }

  /** Sends a request with `payloadBytes(request)` bytes, read piece by piece. */
  async send<Request, Answer>(
    command: PayloadCommand<Request, Answer>,
    request: Request,
    read: (position: number) => Promise<Buffer>,
  ): Promise<Answer> {
    const bytes = command.payloadBytes(request);
    const body = new BodySource(() => chunksOf(bytes, read), bytes, true);
    const head = encodeRequestHead(command, request);
    const connection = await this.#lease();
    try {
      const reply = new CollectedReply(MAX_REPLY_BYTES);
      const reader = new ReplyReader(reply, true);
      await body.sendOver(connection, head, reader, REQUEST, this.#options.timeoutMs);
      const answer = answerOf(connection, command, reply);
      if (connection.state !== 'closed') return answer;
      throw new ConnectionError('connection_lost', `${command.name}: answered before its end`);
    } finally {
      this.#pool.release(connection);
    }
  }

  close(): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    void this.#pool.close();
    this.#end();
  }

  #lease(): Promise<Connection> {
    return this.#pool.lease(this.#options.address, REQUEST);
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
    await hello?.((command, request, flags = 0) => this.#ask(connection, command, request, flags));
  }

  async #ask<Request, Answer>(
    connection: Connection,
    command: Command<Request, Answer>,
    request: Request,
    flags: number,
  ): Promise<Answer> {
    const reply = new CollectedReply(MAX_REPLY_BYTES);
    const frame = encodeRequest(command, request, flags);
    const { timeoutMs } = this.#options;
    await connection.exchange([frame], new ReplyReader(reply), REQUEST, timeoutMs);
    return answerOf(connection, command, reply);
  }
}

function answerOf<Answer>(
  connection: Connection,
  command: Pick<Command<unknown, Answer>, 'name' | 'reply'>,
  { status, body }: CollectedReply,
): Answer {
  if (status !== Status.ok) {
    // A storage closes after this status; closing first keeps it from counting as a loss.
    if (status === Status.invalid) connection.destroy();
    throw new StatusError(status, command.name);
  }
  try {
    return command.reply.decode(body);
  } catch (error) {
    connection.destroy();
    throw error;
  }
}

async function* chunksOf(
  bytes: number,
  read: (position: number) => Promise<Buffer>,
): AsyncGenerator<Buffer> {
  for (let at = 0; at < bytes; ) {
    const chunk = await read(at);
    if (chunk.length === 0) throw new TypeError('a request without all of its bytes');
    at += chunk.length;
    yield chunk;
  }
}

/** Requests of daemons end with their answer, their connection or a timeout. */
const REQUEST: Call = {
  throwIfEnded: () => {},
  watch: () => {},
  unwatch: () => {},
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
 * Runs sessions one after the other until the signal, whatever ends them. Reports only the first
 * failure in a row.
 */
export async function keepSession({ signal, session, pause, report }: Sessions): Promise<void> {
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
    if (!signal.aborted) await pause();
  }
}

interface Sessions {
  readonly signal: AbortSignal;
  /** Calls `serves` once it has done something useful. */
  readonly session: (serves: () => void) => Promise<void>;
  /** Waits between two sessions. */
  readonly pause: () => Promise<unknown>;
  readonly report: (error: unknown) => void;
}

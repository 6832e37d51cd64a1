import { type OnReadOpts, Socket, type SocketConstructorOpts } from 'node:net';
import { messageOf, ProtocolError } from '@stevedore/protocol';
import { type Address, plainAddress } from '../address.js';
import { type Call, FIRST_ROOM_BYTES, type ReceivedReply } from './reply.js';

/**
 * One socket to one server, carrying one request at a time. It is always in exactly one state.
 * Whatever makes the bytes in flight uncertain closes it: timeout, abort, end, reset, a malformed
 * reply, unexpected bytes.
 *
 *      connecting --> leased --> busy --> leased --> idle --> leased ..
 *
 * Any state can lead to closed. Every wait settles, and the socket has its listeners from the
 * start, so none of its errors is unhandled.
 */

type ConnectionState =
  | 'connecting'
  /** Owned by one call, without a request. */
  | 'leased'
  /** A request is being sent, or its reply is awaited. */
  | 'busy'
  /** In the pool. */
  | 'idle'
  | 'closed';

export interface SocketOptions {
  /** Lets the system detect a dead peer. Default false. */
  readonly keepAlive?: boolean;
  /** Address to connect from: servers tell storages apart by it. */
  readonly localAddress?: string | undefined;
}

/** What a call is waiting for: the connection itself, or a reply. */
interface Wait {
  readonly call: Call;
  readonly noProgressMs: number;
  readonly reply: ReceivedReply | undefined;
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

export class Connection {
  readonly address: Address;
  /** Replies received so far. Above 0, the server may have closed the connection meanwhile. */
  replies = 0;
  /** Time of the last return to the pool, in milliseconds of `performance.now()`. */
  idleSinceMs = 0;
  /** True if the other end, or the network, closed it. */
  lost = false;
  state: ConnectionState = 'connecting';
  /** True while no byte of the reply to the last request has arrived. */
  unanswered = false;
  /** True when all of the last request was handed to the system, or is about to be. */
  requestComplete = true;
  readonly #socket: PatientSocket;
  readonly #onClosed: (connection: Connection) => void;
  #wait: Wait | undefined;
  #paused = false;
  /** The socket's timeout. It is kept between exchanges, because setting it is costly. */
  #timeoutMs = 0;
  readonly #onEnded = (error: Error): void => this.destroy(error);

  private constructor(
    address: Address,
    { keepAlive = false, localAddress }: SocketOptions,
    onClosed: (connection: Connection) => void,
  ) {
    this.address = address;
    this.#onClosed = onClosed;
    const first = Buffer.allocUnsafe(FIRST_ROOM_BYTES);
    this.#socket = new PatientSocket({
      buffer: () => this.#wait?.reply?.room ?? first,
      callback: this.#onData,
    });
    this.#socket.setNoDelay(true);
    if (keepAlive) this.#socket.setKeepAlive(true);
    this.#socket.on('connect', () => this.#onConnect());
    this.#socket.on('timeout', () => this.#onTimeout());
    this.#socket.on('error', (error) => this.#onLost(error));
    this.#socket.on('end', () => this.#onLost(undefined));
    this.#socket.on('close', () => this.#onLost(undefined));
    const { host, port } = address;
    this.#socket.connect(
      localAddress === undefined ? { host, port } : { host, port, localAddress },
    );
  }

  /**
   * Starts to connect. `onClosed` is called once, when the connection is closed. `connected`
   * rejects with `connect_failed`, or with the error that ended the call.
   */
  static open(
    address: Address,
    options: SocketOptions,
    timeoutMs: number,
    call: Call,
    onClosed: (connection: Connection) => void,
  ): { connection: Connection; connected: Promise<void> } {
    const connection = new Connection(address, options, onClosed);
    return { connection, connected: connection.#waitFor(call, timeoutMs, undefined) };
  }

  /** The server's address as the system reports it, even if it was named by host name. */
  get remoteAddress(): string {
    return plainAddress(this.#socket.remoteAddress ?? '');
  }

  /** Takes the connection out of the pool. */
  lease(): void {
    if (this.state !== 'idle') throw new Error(`a connection is leased while it is ${this.state}`);
    this.state = 'leased';
    this.#socket.ref();
  }

  /** Returns it to the pool, where it does not keep the process alive. */
  rest(): void {
    if (this.state !== 'leased') throw new Error(`a connection rests while it is ${this.state}`);
    this.state = 'idle';
    this.idleSinceMs = performance.now();
    this.#socket.unref();
  }

  /**
   * Sends a request; resolves when `reply` is complete. If `complete` is false, the rest of the
   * request follows by `send`. A reply that ends before the request closes the connection.
   */
  exchange(
    parts: readonly Uint8Array[],
    reply: ReceivedReply,
    call: Call,
    noProgressMs: number,
    complete = true,
  ): Promise<void> {
    if (this.state === 'closed') return Promise.reject(this.#lostError(call, undefined));
    if (this.state !== 'leased') throw new Error(`a connection is asked while it is ${this.state}`);
    this.state = 'busy';
    this.unanswered = true;
    this.requestComplete = complete;
    reply.connection = this;
    const done = this.#waitFor(call, noProgressMs, reply);
    // A call that has ended closed the connection at once.
    if (!this.#wait) return done;
    if (parts.length === 1) this.#socket.write(parts[0] ?? '');
    else this.#write(parts);
    return done;
  }

  /**
   * Sends more of the request. Resolves, and never rejects, when the system has taken it or the
   * exchange is over. Between two parts the server owes nothing, so no progress is expected of it;
   * after the `last` part the reply is due.
   */
  async send(parts: readonly Uint8Array[], last: boolean): Promise<void> {
    const wait = this.#wait;
    if (!wait) return;
    this.requestComplete = last;
    this.#expectProgress(wait.noProgressMs);
    await new Promise<void>((resolve) => this.#write(parts, resolve));
    if (!last && this.#wait === wait) this.#expectProgress(0);
  }

  /** Suspends the timeout while the caller produces the next part of the request. */
  expectNothing(): void {
    if (this.#wait) this.#expectProgress(0);
  }

  /** Stops reading a reply while its consumer is behind. */
  pause(): void {
    if (!this.#wait || this.#paused) return;
    this.#paused = true;
    this.#expectProgress(0);
    this.#socket.pause();
  }

  resume(): void {
    if (!this.#paused) return;
    this.#paused = false;
    if (this.#wait) this.#expectProgress(this.#wait.noProgressMs);
    if (this.state !== 'closed') this.#socket.resume();
  }

  /** Closes the connection; a call that waits on it gets the error. */
  destroy(error?: unknown): void {
    const wait = this.#close();
    wait?.reject(error);
  }

  /** Closes the connection because its owner is closed. */
  close(): void {
    this.destroy(this.#wait?.call.error('closed', 'the client was closed'));
  }

  /** Resolves once the socket's descriptor is released. */
  whenReleased(): Promise<void> {
    if (this.#socket.closed) return Promise.resolve();
    return new Promise((resolve) => this.#socket.once('close', () => resolve()));
  }

  #close(): Wait | undefined {
    if (this.state === 'closed') return undefined;
    this.state = 'closed';
    const wait = this.#wait;
    this.#wait = undefined;
    wait?.call.unwatch();
    this.#socket.destroy();
    this.#onClosed(this);
    return wait;
  }

  #waitFor(call: Call, noProgressMs: number, reply: ReceivedReply | undefined): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#wait = { call, noProgressMs, reply, resolve, reject };
      if (noProgressMs !== this.#timeoutMs) this.#expectProgress(noProgressMs);
      call.watch(this.#onEnded);
    });
  }

  /** 0: none. An unchanged timer keeps running; every write and read restarts it. */
  #expectProgress(ms: number): void {
    if (ms === this.#timeoutMs) return;
    this.#timeoutMs = ms;
    this.#socket.setTimeout(ms);
  }

  #write(parts: readonly Uint8Array[], flushed?: () => void): void {
    // Corked writes need one system call.
    if (parts.length > 1) this.#socket.cork();
    for (const [index, part] of parts.entries()) {
      this.#socket.write(part, index === parts.length - 1 ? flushed : undefined);
    }
    if (parts.length > 1) this.#socket.uncork();
    if (parts.length === 0) flushed?.();
  }

  #onConnect(): void {
    const wait = this.#wait;
    if (this.state !== 'connecting' || !wait) return;
    this.state = 'leased';
    this.#wait = undefined;
    wait.call.unwatch();
    wait.resolve();
  }

  /** False stops reading. */
  readonly #onData = (count: number, room: Uint8Array): boolean => {
    const wait = this.#wait;
    if (!wait?.reply) {
      this.destroy();
      return false;
    }
    this.unanswered = false;
    try {
      if (wait.reply.took(room as Buffer, count)) this.#finish(wait);
    } catch (error) {
      const details = { address: this.address.text, cause: error };
      const isBad = error instanceof ProtocolError;
      this.destroy(isBad ? wait.call.error('bad_reply', messageOf(error), details) : error);
    }
    return !this.#paused;
  };

  #finish(wait: Wait): void {
    // The end of the reply may have ended the call.
    if (this.#wait !== wait) return;
    this.state = 'leased';
    this.replies++;
    this.#wait = undefined;
    wait.call.unwatch();
    if (this.#paused) this.resume();
    const isUnsure = !this.requestComplete || wait.reply?.isFollowed;
    if (isUnsure || this.#socket.writableLength > 0) this.destroy();
    wait.resolve();
  }

  #onTimeout(): void {
    const wait = this.#wait;
    if (!wait) return;
    const details = { address: this.address.text };
    this.destroy(
      this.state === 'connecting'
        ? wait.call.error('connect_failed', `no connection within ${wait.noProgressMs} ms`, details)
        : wait.call.error('timeout', `no progress for ${wait.noProgressMs} ms`, details),
    );
  }

  #onLost(cause: Error | undefined): void {
    if (this.state === 'closed') return;
    this.lost = true;
    const state = this.state;
    const wait = this.#close();
    if (wait?.reply?.isOpen) wait.resolve();
    else if (wait) wait.reject(this.#lostError(wait.call, cause, state));
  }

  #lostError(call: Call, cause: Error | undefined, state = this.state): Error {
    const why = cause ? messageOf(cause) : 'closed by the server';
    const details = { address: this.address.text, cause };
    return state === 'connecting'
      ? call.error('connect_failed', `cannot connect: ${why}`, details)
      : call.error('connection_lost', `connection lost: ${why}`, details);
  }
}

/**
 * A socket that reads before it reports a write error. A storage may refuse an upload and close
 * while the body is being sent. The next write then fails although the refusal can still be read.
 * So a failed write is reported only after the event loop has polled once more and delivered what
 * the server had sent.
 */

type Done = (error?: Error | null) => void;

class PatientSocket extends Socket {
  /** Of the write in progress; there is one at a time. */
  #done: Done | undefined;
  readonly #afterReading: Done = (error) => {
    const done = this.#done;
    if (!error) done?.();
    // The first turn may come before the next poll, the second cannot.
    else setImmediate(() => setImmediate(() => done?.(error)));
  };

  constructor(onread: OnReadOpts) {
    // The types know this option only where a socket is connected at once.
    super({ onread } as SocketConstructorOpts);
  }

  override _write(chunk: unknown, encoding: BufferEncoding, done: Done): void {
    this.#done = done;
    super._write(chunk, encoding, this.#afterReading);
  }

  override _writev(chunks: { chunk: unknown; encoding: BufferEncoding }[], done: Done): void {
    this.#done = done;
    super._writev?.(chunks, this.#afterReading);
  }
}

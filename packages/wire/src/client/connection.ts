import { Socket } from 'node:net';
import { messageOf } from '@stevedore/protocol';
import { type Address, plainAddress } from '../address.js';
import type { Call, ReplyReader } from './reply-reader.js';

/**
 * One socket to one server, carrying one request at a time. It is always in exactly one state.
 * Whatever makes the bytes in flight uncertain closes it: timeout, abort, end, reset, a malformed
 * reply, unexpected bytes.
 *
 *      connecting --> leased --> awaiting --> receiving --> leased --> idle --> leased ..
 *
 * Any state can lead to closed. Every wait settles, and the socket has its listeners from the
 * start, so none of its errors is unhandled.
 */

export type ConnectionState =
  | 'connecting'
  /** Owned by one call, without a request. */
  | 'leased'
  /** A request is being sent or was sent; no byte of its reply has arrived. */
  | 'awaiting'
  /** Part of the reply has arrived. */
  | 'receiving'
  /** In the pool. */
  | 'idle'
  | 'closed';

const TRANSITIONS: Readonly<Record<ConnectionState, readonly ConnectionState[]>> = {
  connecting: ['leased', 'closed'],
  leased: ['awaiting', 'idle', 'closed'],
  awaiting: ['receiving', 'closed'],
  receiving: ['leased', 'closed'],
  idle: ['leased', 'closed'],
  closed: [],
};

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
  readonly reader?: ReplyReader;
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
  readonly #socket = new PatientSocket();
  readonly #onClosed: (connection: Connection) => void;
  #state: ConnectionState = 'connecting';
  #wait: Wait | undefined;
  #requestComplete = true;
  #unanswered = false;
  #paused = false;
  /** The socket's timeout. It is kept between exchanges, because setting it is costly. */
  #timeoutMs = 0;

  private constructor(
    address: Address,
    { keepAlive = false, localAddress }: SocketOptions,
    onClosed: (connection: Connection) => void,
  ) {
    this.address = address;
    this.#onClosed = onClosed;
    this.#socket.setNoDelay(true);
    if (keepAlive) this.#socket.setKeepAlive(true);
    this.#socket.on('connect', () => this.#onConnect());
    this.#socket.on('data', (bytes: Buffer) => this.#onData(bytes));
    this.#socket.on('timeout', () => this.#onTimeout());
    this.#socket.on('error', (error) => this.#onLost(error));
    this.#socket.on('end', () => this.#onLost(undefined));
    this.#socket.on('close', () => this.#onLost(undefined));
    this.#socket.connect({
      host: address.host,
      port: address.port,
      ...(localAddress === undefined ? {} : { localAddress }),
    });
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
    return { connection, connected: connection.#waitFor({ call, noProgressMs: timeoutMs }) };
  }

  /** The server's address as the system reports it, even if it was named by host name. */
  get remoteAddress(): string {
    return plainAddress(this.#socket.remoteAddress ?? '');
  }

  get state(): ConnectionState {
    return this.#state;
  }

  /** True while no byte of the reply to the last request has arrived. */
  get unanswered(): boolean {
    return this.#unanswered;
  }

  /** True when all of the last request was handed to the system, or is about to be. */
  get requestComplete(): boolean {
    return this.#requestComplete;
  }

  /** Takes the connection out of the pool. */
  lease(): void {
    this.#enter('leased');
    this.#socket.ref();
  }

  /** Returns it to the pool, where it does not keep the process alive. */
  rest(): void {
    this.#enter('idle');
    this.idleSinceMs = performance.now();
    this.#socket.unref();
  }

  /**
   * Sends a request and feeds `reader` until the reply is complete. If `complete` is false, the
   * rest of the request follows by `send`. A reply that ends before the request closes the
   * connection.
   */
  exchange(
    parts: readonly Uint8Array[],
    reader: ReplyReader,
    call: Call,
    noProgressMs: number,
    complete = true,
  ): Promise<void> {
    if (this.#state === 'closed') return Promise.reject(this.#lostError(call, undefined));
    this.#enter('awaiting');
    this.#unanswered = true;
    this.#requestComplete = complete;
    const done = this.#waitFor({ call, noProgressMs, reader });
    // An ended call has closed the connection already.
    if (this.#wait) this.#write(parts);
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
    this.#requestComplete = last;
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
    if (this.#state !== 'closed') this.#socket.resume();
  }

  /** Closes the connection; a call that waits on it gets the error. */
  destroy(error?: unknown): void {
    if (this.#state === 'closed') return;
    this.#enter('closed');
    const wait = this.#takeWait();
    this.#socket.destroy();
    this.#onClosed(this);
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

  #enter(state: ConnectionState): void {
    if (!TRANSITIONS[this.#state].includes(state)) {
      throw new Error(`a connection cannot go from ${this.#state} to ${state}`);
    }
    this.#state = state;
  }

  #waitFor(what: Omit<Wait, 'resolve' | 'reject'>): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#wait = { ...what, resolve, reject };
      this.#expectProgress(what.noProgressMs);
      what.call.watch((error) => this.destroy(error));
    });
  }

  #takeWait(): Wait | undefined {
    const wait = this.#wait;
    this.#wait = undefined;
    wait?.call.unwatch();
    return wait;
  }

  /** 0: none. An unchanged timer keeps running; every write and read restarts it. */
  #expectProgress(ms: number): void {
    if (ms === this.#timeoutMs) return;
    this.#timeoutMs = ms;
    this.#socket.setTimeout(ms);
  }

  #write(parts: readonly Uint8Array[], flushed?: () => void): void {
    const last = parts.length - 1;
    if (last < 0) {
      flushed?.();
    } else if (last === 0) {
      this.#socket.write(parts[0]!, flushed);
    } else {
      // Corked writes need one system call.
      this.#socket.cork();
      for (let index = 0; index < last; index++) this.#socket.write(parts[index]!);
      this.#socket.write(parts[last]!, flushed);
      this.#socket.uncork();
    }
  }

  #onConnect(): void {
    if (this.#state !== 'connecting') return;
    this.#enter('leased');
    this.#takeWait()?.resolve();
  }

  #onData(bytes: Buffer): void {
    const wait = this.#wait;
    if (!wait?.reader) {
      this.destroy();
      return;
    }
    if (this.#state === 'awaiting') {
      this.#enter('receiving');
      this.#unanswered = false;
    }
    try {
      if (wait.reader.push(bytes)) this.#finish();
    } catch (error) {
      this.destroy(
        wait.call.error('bad_reply', messageOf(error), {
          address: this.address.text,
          cause: error,
        }),
      );
    }
  }

  #finish(): void {
    // The reader's sink may have ended the call.
    if (this.#state === 'closed') return;
    this.#enter('leased');
    this.replies++;
    const wait = this.#takeWait();
    this.resume();
    if (!this.#requestComplete || this.#socket.writableLength > 0) this.destroy();
    wait?.resolve();
  }

  #onTimeout(): void {
    const wait = this.#wait;
    if (!wait) return;
    const address = this.address.text;
    this.destroy(
      this.#state === 'connecting'
        ? wait.call.error('connect_failed', `no connection within ${wait.noProgressMs} ms`, {
            address,
          })
        : wait.call.error('timeout', `no progress for ${wait.noProgressMs} ms`, { address }),
    );
  }

  #onLost(cause: Error | undefined): void {
    if (this.#state === 'closed') return;
    this.lost = true;
    const call = this.#wait?.call;
    this.destroy(call && this.#lostError(call, cause));
  }

  #lostError(call: Call, cause: Error | undefined): Error {
    const why = cause ? messageOf(cause) : 'closed by the server';
    const details = { address: this.address.text, cause };
    return this.#state === 'connecting'
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
  override _write(chunk: unknown, encoding: BufferEncoding, done: Done): void {
    super._write(chunk, encoding, afterReading(done));
  }

  override _writev(chunks: { chunk: unknown; encoding: BufferEncoding }[], done: Done): void {
    super._writev?.(chunks, afterReading(done));
  }
}

function afterReading(done: Done): Done {
  return (error) => {
    if (!error) return done();
    // The first turn may come before the next poll, the second cannot.
    setImmediate(() => setImmediate(() => done(error)));
  };
}

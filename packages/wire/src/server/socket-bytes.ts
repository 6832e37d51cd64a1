import { createRequire } from 'node:module';
import type { Socket } from 'node:net';
import { ConnectionError } from '../errors.js';

/**
 * Pulls bytes out of a socket in the amounts that a reader asks for. Holds at most `limitBytes`
 * plus one system read; beyond that the sender waits. Every wait can have a time limit and ends
 * when the peer closes.
 */
export class ByteSource {
  readonly #socket: Socket;
  readonly #limitBytes: number;
  readonly #chunks: Buffer[] = [];
  /** Bytes of the first chunk that have been read. */
  #used = 0;
  #queuedBytes = 0;
  #finished = false;
  #wake: (() => void) | undefined;

  constructor(socket: Socket, limitBytes: number) {
    this.#socket = socket;
    this.#limitBytes = limitBytes;
    socket.on('data', (chunk: Buffer) => this.#add(chunk));
    socket.on('end', () => this.#finish());
    socket.on('error', () => this.#finish());
    socket.on('close', () => this.#finish());
  }

  /** True once the peer sends no more; earlier bytes may still be queued. */
  get finished(): boolean {
    return this.#finished;
  }

  /** Bytes that have arrived and are unread. */
  get queuedBytes(): number {
    return this.#queuedBytes;
  }

  /** Waits for a first byte or the peer's end; without `timeoutMs` forever. */
  ready(timeoutMs?: number): Promise<void> {
    if (timeoutMs !== undefined) return this.#until(1, timeoutMs);
    const isReady = this.#queuedBytes > 0 || this.#finished;
    return isReady ? Promise.resolve() : this.#arrival(undefined);
  }

  /** As `exactly`, if the bytes have arrived: most requests arrive whole. */
  arrived(count: number): Buffer | undefined {
    return this.#queuedBytes < count ? undefined : this.#read(count);
  }

  /** Reads `count` bytes, at most `limitBytes`, within the time. */
  async exactly(count: number, timeoutMs: number): Promise<Buffer> {
    await this.#until(count, timeoutMs);
    if (this.#queuedBytes < count) throw lost();
    return this.#read(count);
  }

  /** What has arrived, from 1 to `most` bytes; waits for the first. */
  some(most: number, timeoutMs: number): Buffer[] | Promise<Buffer[]> {
    if (this.#queuedBytes > 0) return this.#remove(Math.min(most, this.#queuedBytes));
    return this.#someLater(most, timeoutMs);
  }

  async #someLater(most: number, timeoutMs: number): Promise<Buffer[]> {
    await this.#until(1, timeoutMs);
    if (this.#queuedBytes === 0) throw lost();
    return this.some(most, timeoutMs);
  }

  #add(chunk: Buffer): void {
    this.#chunks.push(chunk);
    this.#queuedBytes += chunk.length;
    if (this.#queuedBytes >= this.#limitBytes) this.#socket.pause();
    this.#wake?.();
  }

  #finish(): void {
    this.#finished = true;
    this.#wake?.();
  }

  async #until(count: number, timeoutMs: number): Promise<void> {
    const deadline = performance.now() + timeoutMs;
    while (this.#queuedBytes < count && !this.#finished) {
      const left = deadline - performance.now();
      if (left <= 0) throw new ConnectionError('timeout', 'the peer has been silent too long');
      await this.#arrival(left);
    }
  }

  #arrival(timeoutMs: number | undefined): Promise<void> {
    return new Promise((resolve) => {
      const timer =
        timeoutMs === undefined ? undefined : setTimeout(() => this.#wake?.(), timeoutMs + 1);
      this.#wake = () => {
        clearTimeout(timer);
        this.#wake = undefined;
        resolve();
      };
    });
  }

  /** As one buffer: a view, unless the bytes are of several chunks. */
  #read(count: number): Buffer {
    const chunk = this.#take(count);
    return chunk.length === count
      ? chunk
      : Buffer.concat([chunk, ...this.#remove(count - chunk.length)]);
  }

  #remove(count: number): Buffer[] {
    const taken: Buffer[] = [];
    for (let missing = count; missing > 0; ) {
      const chunk = this.#take(missing);
      taken.push(chunk);
      missing -= chunk.length;
    }
    return taken;
  }

  /** Up to so many bytes of the first chunk. */
  #take(most: number): Buffer {
    const first = this.#chunks[0];
    if (!first || most === 0) return NOTHING;
    const end = this.#used + most;
    const isWhole = end >= first.length;
    const bytes = this.#used === 0 && isWhole ? first : first.subarray(this.#used, end);
    if (isWhole) this.#chunks.shift();
    this.#used = isWhole ? 0 : end;
    this.#queuedBytes -= bytes.length;
    if (this.#queuedBytes < this.#limitBytes && this.#socket.isPaused()) this.#socket.resume();
    return bytes;
  }
}

const NOTHING = Buffer.alloc(0);

function lost(): ConnectionError {
  return new ConnectionError('connection_lost', 'the peer closed in the middle of a message');
}

/** Writes to a socket and waits for the peer to read, for a limited time. */
export class SocketSink {
  readonly #socket: Socket;
  readonly #timeoutMs: number;
  #wake: (() => void) | undefined;

  constructor(socket: Socket, timeoutMs: number) {
    this.#socket = socket;
    this.#timeoutMs = timeoutMs;
    socket.on('drain', () => this.#wake?.());
    socket.on('close', () => this.#wake?.());
  }

  /**
   * Sends both together. Returns a promise, which resolves when there is room for more, only if the
   * system has not taken all of it. Throws ConnectionError.
   */
  write(bytes: Buffer, more?: Buffer): Promise<void> | undefined {
    const socket = this.#socket;
    if (!socket.writable) throw gone();
    if (more) socket.cork();
    socket.write(bytes);
    if (more) socket.write(more);
    if (more) socket.uncork();
    const isFull = socket.writableLength >= socket.writableHighWaterMark;
    return isFull ? this.#room() : undefined;
  }

  async #room(): Promise<void> {
    await this.#drained();
    if (!this.#socket.writable) throw gone();
  }

  #drained(): Promise<void> {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        this.#wake = undefined;
        reject(new ConnectionError('timeout', 'the peer does not read its answer'));
      }, this.#timeoutMs);
      this.#wake = () => {
        clearTimeout(timer);
        this.#wake = undefined;
        resolve();
      };
    });
  }
}

function gone(): ConnectionError {
  return new ConnectionError('connection_lost', 'the peer has closed');
}

/**
 * Acknowledges received bytes at once. The C and Java clients send a request in two writes with
 * Nagle's algorithm on, so their system holds a short body back until the head is acknowledged, and
 * Linux delays that acknowledgement by 40 ms. TCP_QUICKACK stops the delay until the next answer is
 * sent. It is set whenever a body is missing, as the C storage does after every read. Node cannot
 * set it, so koffi does. Koffi is an optional dependency: without it, and on other systems, such
 * uploads wait.
 */

/** Values of Linux, the same on every processor. */
const IPPROTO_TCP = 6;
const TCP_QUICKACK = 12;
const PROTOTYPE = 'int setsockopt(int fd, int level, int name, const int *value, uint32_t length)';
const ON = new Int32Array([1]);

let acknowledge: ((fd: number) => void) | undefined;

export function quickAck(socket: Socket): void {
  // Undocumented, but the same in Node 20 to 26. Windows has none.
  const { _handle: handle } = socket as { _handle?: { readonly fd?: number } | null };
  const fd = handle?.fd;
  if (fd === undefined) return;
  acknowledge ??= load();
  acknowledge(fd);
}

/** Loads koffi when first needed: most storages have other clients and do without its memory. */
function load(): (fd: number) => void {
  if (process.platform !== 'linux') return () => {};
  try {
    const koffi = createRequire(import.meta.url)('koffi') as typeof import('koffi');
    const setsockopt = koffi.load(null).func(PROTOTYPE);
    // Fails only if the connection is gone, which the reader notices.
    return (fd) => void setsockopt(fd, IPPROTO_TCP, TCP_QUICKACK, ON, ON.byteLength);
  } catch {
    return () => {};
  }
}

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
  #chunks: Buffer[] = [];
  #queuedBytes = 0;
  #finished = false;
  #wake: (() => void) | undefined;

  constructor(socket: Socket, limitBytes: number) {
    this.#socket = socket;
    this.#limitBytes = limitBytes;
    socket.on('data', (chunk: Buffer) => this.#take(chunk));
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

  /** Waits for a first byte, without `timeoutMs` forever; false if the peer closes instead. */
  async ready(timeoutMs?: number): Promise<boolean> {
    await this.#until(1, timeoutMs);
    return this.#queuedBytes > 0;
  }

  /** As `exactly`, if the bytes have arrived: most requests arrive whole. */
  arrived(count: number): Buffer | undefined {
    return this.#queuedBytes < count ? undefined : join(this.#remove(count), count);
  }

  /** Reads `count` bytes, at most `limitBytes`, within the time. */
  async exactly(count: number, timeoutMs: number): Promise<Buffer> {
    await this.#until(count, timeoutMs);
    if (this.#queuedBytes < count) throw lost();
    return join(this.#remove(count), count);
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

  #take(chunk: Buffer): void {
    this.#chunks.push(chunk);
    this.#queuedBytes += chunk.length;
    if (this.#queuedBytes >= this.#limitBytes) this.#socket.pause();
    this.#wake?.();
  }

  #finish(): void {
    this.#finished = true;
    this.#wake?.();
  }

  async #until(count: number, timeoutMs: number | undefined): Promise<void> {
    const deadline = timeoutMs === undefined ? undefined : performance.now() + timeoutMs;
    while (this.#queuedBytes < count && !this.#finished) {
      const left = deadline === undefined ? undefined : deadline - performance.now();
      if (left !== undefined && left <= 0) {
        throw new ConnectionError('timeout', 'the peer has been silent too long');
      }
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

  #remove(count: number): Buffer[] {
    const [first] = this.#chunks;
    if (first && count < first.length) {
      this.#chunks[0] = first.subarray(count);
      this.#noteRemoved(count);
      return [first.subarray(0, count)];
    }
    const taken: Buffer[] = [];
    let missing = count;
    let used = 0;
    for (const chunk of this.#chunks) {
      if (missing === 0) break;
      const isWhole = chunk.length <= missing;
      taken.push(isWhole ? chunk : chunk.subarray(0, missing));
      if (isWhole) used += 1;
      else this.#chunks[used] = chunk.subarray(missing);
      missing -= Math.min(chunk.length, missing);
    }
    this.#chunks.splice(0, used);
    this.#noteRemoved(count);
    return taken;
  }

  #noteRemoved(count: number): void {
    this.#queuedBytes -= count;
    if (this.#queuedBytes < this.#limitBytes && this.#socket.isPaused()) this.#socket.resume();
  }
}

function join(chunks: Buffer[], bytes: number): Buffer {
  const [first] = chunks;
  return first && chunks.length === 1 ? first : Buffer.concat(chunks, bytes);
}

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

  /** Resolves when there is room for more. Several parts are sent together. */
  async write(...parts: Buffer[]): Promise<void> {
    const socket = this.#socket;
    if (!socket.writable) throw gone();
    if (parts.length > 1) socket.cork();
    for (const part of parts) socket.write(part);
    if (parts.length > 1) socket.uncork();
    // Mostly the system has taken all of it by now.
    if (socket.writableLength < socket.writableHighWaterMark) return;
    await this.#drained();
    if (!socket.writable) throw gone();
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
  const fd = descriptorOf(socket);
  if (fd === undefined) return;
  acknowledge ??= load();
  acknowledge(fd);
}

/** Undocumented, but the same in Node 20 to 26. Windows has none. */
function descriptorOf(socket: Socket): number | undefined {
  const { _handle: handle } = socket as { _handle?: { readonly fd?: number } | null };
  return handle?.fd;
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

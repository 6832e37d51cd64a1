import type { EventEmitter } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { demandUnread } from '@stevedore/client/connect/internal';
import type { TransferLimits } from '../limits.js';
import { ProblemError, toProblem } from '../problems.js';
import type { DigestCheck } from './digests.js';

/**
 * The body of a request as it arrives: pulled, counted, bounded. Whatever ends it early (too long,
 * too slow, client gone, a malformed form) is kept in `failure`, aborts `signal` and wakes the
 * waiting reader, so a store that wraps the error or stops listening cannot hide it. The request
 * itself is never destroyed here: its socket still has to carry the answer.
 */
export interface BodyOptions {
  readonly limitBytes: number;
  readonly guard: ProgressGuard;
  readonly digests?: DigestCheck | undefined;
  readonly room?: UploadRoom | undefined;
  readonly quota?: UploadQuota | undefined;
  /** Length of the body, if it is known. */
  readonly expectedBytes?: number | undefined;
}

/** Bytes that an upload may store: what remains of its client's quota. */
export interface UploadQuota {
  /**
   * Call it before `bytes` more are stored; `expected`: at most how many will be, if that is known.
   * Throws, or rejects, if they are refused.
   */
  take(bytes: number, expected?: number): void | Promise<void>;
}

export class RequestBody {
  readonly #request: IncomingMessage;
  readonly #options: BodyOptions;
  readonly #controller = new AbortController();
  readonly #stopWatching: () => void;
  #receivedBytes = 0;
  #ended = false;
  #wake: (() => void) | undefined;
  #failure: ProblemError | undefined;

  /** Throws `body_used` for a request that a body parser has read. */
  constructor(request: IncomingMessage, options: BodyOptions) {
    if (request.destroyed && !request.complete) throw clientDisconnected();
    demandUnread(request);
    this.#request = request;
    this.#options = options;
    request.on('error', () => this.fail(clientDisconnected()));
    request.on('end', this.#onEnd);
    request.on('readable', this.#onReadable);
    request.on('close', () => {
      if (!this.#ended) this.fail(clientDisconnected());
    });
    this.#stopWatching = options.guard.watch(request, () => this.fail(tooSlow()));
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Why the body ended early; undefined if it did not. */
  get failure(): ProblemError | undefined {
    return this.#failure;
  }

  /** Ends the body early; the first reason counts. */
  fail(problem: ProblemError): ProblemError {
    if (this.#failure) return this.#failure;
    this.#failure = problem;
    this.#stopWatching();
    this.#controller.abort(problem);
    this.#onReadable();
    return problem;
  }

  /** The bytes; can be read once. Throws the failure. */
  async *chunks(): AsyncGenerator<Buffer, void, undefined> {
    const { limitBytes, digests, room } = this.#options;
    for (;;) {
      if (this.#failure) throw this.#failure;
      const chunk = this.#request.read() as Buffer | null;
      if (chunk !== null) {
        this.#receivedBytes += chunk.length;
        if (this.#receivedBytes > limitBytes) throw this.fail(tooLarge(limitBytes));
        if (room?.take(chunk.length) === false) throw this.fail(tooMuchHeld(room));
        digests?.update(chunk);
        yield chunk;
      } else if (this.#ended) {
        const problem = digests?.problem();
        if (problem) throw this.fail(problem);
        return;
      } else {
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
      }
    }
  }

  /** Takes bytes that will be stored from the client's quota; fails the body if it is used up. */
  async take(bytes: number): Promise<void> {
    try {
      await this.#options.quota?.take(bytes, this.#options.expectedBytes);
    } catch (error) {
      throw this.fail(toProblem(error));
    }
  }

  /** As `chunks`, each taken from the client's quota. */
  async *counted(): AsyncGenerator<Buffer, void, undefined> {
    for await (const chunk of this.chunks()) {
      await this.take(chunk.length);
      yield chunk;
    }
  }

  /** Does work on the body, and then wants no more of it. If the body failed, that is the reason. */
  async use<Result>(work: () => Promise<Result>): Promise<Result> {
    try {
      return await work();
    } catch (error) {
      throw this.#failure ?? error;
    } finally {
      this.release();
    }
  }

  /** The rest is not wanted. */
  release(): void {
    this.#stopWatching();
    this.#options.room?.release();
    this.#request.off('readable', this.#onReadable);
  }

  readonly #onReadable = (): void => {
    const wake = this.#wake;
    this.#wake = undefined;
    wake?.();
  };

  readonly #onEnd = (): void => {
    this.#ended = true;
    this.#stopWatching();
    this.#onReadable();
  };
}

/** A short body of known length, in one piece. Rejects with `body_used` as well. */
export function readWhole(
  request: IncomingMessage,
  sizeBytes: number,
  guard: ProgressGuard,
): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    if (request.destroyed && !request.complete) throw clientDisconnected();
    demandUnread(request);
    const chunks: Buffer[] = [];
    const stopWatching = guard.watch(request, () => reject(tooSlow()));
    request.on('error', () => reject(clientDisconnected()));
    request.on('close', () => {
      stopWatching();
      if (!request.readableEnded) reject(clientDisconnected());
    });
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      stopWatching();
      const [only] = chunks;
      resolve(only && chunks.length === 1 ? only : Buffer.concat(chunks, sizeBytes));
    });
  });
}

export function tooLarge(limitBytes: number): ProblemError {
  return new ProblemError('too_large', `The body is longer than ${limitBytes} bytes.`);
}

function tooMuchHeld({ maxBytes }: UploadRoom): ProblemError {
  const message = `The uploads that one client is sending may have ${maxBytes} bytes together.`;
  return new ProblemError('client_room_exceeded', message);
}

function tooSlow(): ProblemError {
  return new ProblemError('body_too_slow', 'The body arrived too slowly.');
}

function clientDisconnected(): ProblemError {
  return new ProblemError('aborted', 'The client closed the connection before the body ended.');
}

/**
 * Answers `Expect: 100-continue` once the headers are accepted, unless node has done so: it does
 * for every server that does not listen for `checkContinue`.
 */
export function sendContinueIfExpected(request: IncomingMessage, response: ServerResponse): void {
  // HTTP/1.0 has no such answer.
  if (request.headers.expect === undefined || request.httpVersion === '1.0') return;
  const { server } = request.socket as { readonly server?: EventEmitter };
  if (server === undefined || server.listenerCount('checkContinue') > 0) response.writeContinue();
}

/** Bounds for uploads that a client does not finish: time and bytes. */

/**
 * Ends bodies that arrive too slowly: in any window of time spent waiting for the client, they must
 * keep a minimum rate. One timer checks all of them, and an upload that ends before it fires costs
 * two operations on a set. Time in which bytes wait for the store does not count.
 */

interface Watched {
  readonly request: IncomingMessage;
  readonly onSlow: () => void;
  /** Bytes received at each check of the last window in which it waited for the client. */
  readonly marks: number[];
}

export class ProgressGuard {
  readonly #limits: TransferLimits;
  readonly #uploads = new Set<Watched>();
  #timer: NodeJS.Timeout | undefined;

  constructor(limits: TransferLimits) {
    this.#limits = limits;
  }

  /** Calls `onSlow` once if the body is too slow; returns a function that stops watching. */
  watch(request: IncomingMessage, onSlow: () => void): () => void {
    const upload = { request, onSlow, marks: [request.socket.bytesRead] };
    this.#uploads.add(upload);
    this.#timer ??= setInterval(() => this.#check(), this.#limits.checkIntervalMs).unref();
    return () => {
      this.#uploads.delete(upload);
    };
  }

  close(): void {
    clearInterval(this.#timer);
    this.#uploads.clear();
  }

  #check(): void {
    const { bodyWindowMs, minBodyBytesPerSecond, checkIntervalMs } = this.#limits;
    const checks = Math.max(1, Math.round(bodyWindowMs / checkIntervalMs));
    const owedBytes = ((checks * checkIntervalMs) / 1000) * minBodyBytesPerSecond;
    for (const upload of this.#uploads) {
      const { request, onSlow, marks } = upload;
      if (request.complete || request.readableLength > 0) continue;
      const bytes = request.socket.bytesRead;
      marks.push(bytes);
      if (marks.length <= checks) continue;
      if (bytes - (marks.shift() ?? 0) < owedBytes) {
        this.#uploads.delete(upload);
        onSlow();
      }
    }
  }
}

/**
 * Bytes of arriving bodies, by client: no client may use all the space with bodies that it never
 * ends. The store counts those of resumable uploads.
 */
export class ClientRoom {
  readonly #maxBytes: number;
  readonly #bytes = new Map<string, number>();

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  of(client: string): UploadRoom {
    let heldBytes = 0;
    return {
      maxBytes: this.#maxBytes,
      take: (bytes) => {
        const sum = (this.#bytes.get(client) ?? 0) + bytes;
        if (sum > this.#maxBytes) return false;
        this.#bytes.set(client, sum);
        heldBytes += bytes;
        return true;
      },
      release: () => {
        const left = (this.#bytes.get(client) ?? 0) - heldBytes;
        heldBytes = 0;
        if (left > 0) this.#bytes.set(client, left);
        else this.#bytes.delete(client);
      },
    };
  }
}

export interface UploadRoom {
  readonly maxBytes: number;
  /** False if the client holds too much already. */
  take(bytes: number): boolean;
  release(): void;
}

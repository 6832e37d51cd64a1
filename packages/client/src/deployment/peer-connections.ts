import type { Dispatcher, Pool } from 'undici';

/**
 * Connections to another gateway, for one kind of request. A stalled gateway holds up a bounded
 * number of requests: each of them times out, and further ones fail at once.
 */

export interface PeerConnectionsOptions {
  readonly maxConnections: number;
  /** Maximum requests in flight or queued. */
  readonly maxRequests: number;
  readonly connectTimeoutMs: number;
  /** Until the head of an answer, and between two chunks of its body. */
  readonly answerTimeoutMs: number;
}

export class PeerConnections {
  readonly #origin: string;
  readonly #options: PeerConnectionsOptions;
  /** Loaded on demand: undici replaces the dispatcher that Node's own `fetch` uses. */
  #pool: Promise<Pool> | undefined;
  #requests = 0;

  constructor(origin: string, options: PeerConnectionsOptions) {
    this.#origin = origin;
    this.#options = options;
  }

  async request(
    request: Pick<Dispatcher.RequestOptions, 'method' | 'path' | 'headers'>,
    signal: AbortSignal,
  ): Promise<Dispatcher.ResponseData> {
    if (this.#requests >= this.#options.maxRequests) {
      throw new Error(`${this.#requests} requests wait for it already`);
    }
    this.#requests += 1;
    const answered = this.#send(request, signal);
    const end = (): void => {
      this.#requests -= 1;
    };
    answered.then(({ body }) => body.once('close', end), end);
    // undici checks the signal only once the request has a connection.
    return untilAborted(answered, signal);
  }

  async close(): Promise<void> {
    await (await this.#pool)?.destroy();
  }

  async #send(
    request: Pick<Dispatcher.RequestOptions, 'method' | 'path' | 'headers'>,
    signal: AbortSignal,
  ): Promise<Dispatcher.ResponseData> {
    this.#pool ??= this.#connect();
    return (await this.#pool).request({ ...request, signal });
  }

  async #connect(): Promise<Pool> {
    const { maxConnections, connectTimeoutMs, answerTimeoutMs } = this.#options;
    const undici = await import('undici');
    return new undici.Pool(this.#origin, {
      connections: maxConnections,
      connect: { timeout: connectTimeoutMs },
      headersTimeout: answerTimeoutMs,
      bodyTimeout: answerTimeoutMs,
    });
  }
}

/** A signal that aborts with the caller's, and after `limitMs` unless `end` was called. */
export class TimeLimit {
  readonly signal: AbortSignal;
  readonly #timer: NodeJS.Timeout;

  constructor(limitMs: number, signal: AbortSignal | undefined) {
    const limit = new AbortController();
    this.signal = signal ? AbortSignal.any([signal, limit.signal]) : limit.signal;
    this.#timer = setTimeout(
      () => limit.abort(new Error(`no answer within ${limitMs} ms`)),
      limitMs,
    );
  }

  end(): void {
    clearTimeout(this.#timer);
  }
}

function untilAborted<Result>(promise: Promise<Result>, signal: AbortSignal): Promise<Result> {
  return new Promise((resolve, reject) => {
    const abort = (): void => reject(signal.reason);
    if (signal.aborted) abort();
    signal.addEventListener('abort', abort, { once: true });
    const end = (): void => signal.removeEventListener('abort', abort);
    promise.then(resolve, reject).then(end, end);
  });
}

import type { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { abortable } from '@stevedore/async';
import { isError } from '@stevedore/protocol';
import { isStoreError, StoreError } from '@stevedore/staging/errors';
import type { Dispatcher, Pool } from 'undici';
import { TimeLimit } from '../deployment/peer-connections.js';
import type { ConnectSettings } from './options.js';
import { GatewayRefusal, refusalOf } from './refusals.js';

/**
 * Sends requests to a gateway, bounded in number and time. Retries them within `retryTimeMs` if the
 * call allows it. Every failure is a StoreError. A gateway that cannot be reached is
 * `storage_unavailable`.
 */

export interface Request {
  readonly method: 'GET' | 'POST' | 'DELETE';
  /** Relative to the gateway's URL. */
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Sent as fast as the gateway reads it. The time limit for the answer begins after it. */
  readonly body?: Uint8Array | AsyncIterable<Uint8Array>;
  /** A status of 300 or more whose body is an answer, too. */
  readonly alsoStatus?: number;
  /** The caller may read the answer slowly: streams have their own pool of connections. */
  readonly isStream?: boolean;
}

export interface Call<Result> {
  readonly signal: AbortSignal | undefined;
  /** Called once per attempt; `again` is true for a retry. */
  readonly attempt: (again: boolean) => Promise<Result>;
  /** False once the call must not be retried. */
  readonly mayRepeat?: () => boolean;
  /** The error for an aborted call. */
  readonly aborted: (reason: unknown) => StoreError;
}

/** Wait before a retry, doubled each time, unless the gateway asks for a longer one. */
const FIRST_WAIT_MS = 50;
const LAST_WAIT_MS = 1_000;
/** Maximum requests per connection, in flight or queued. */
const QUEUED_PER_CONNECTION = 64;
/** Longest answer that is not a file. */
const MAX_TEXT_BYTES = 4 * 2 ** 20;

export class Requests {
  readonly #connecting: ConnectSettings;
  readonly url: string;
  /** Loaded on demand: undici replaces the dispatcher that Node's own `fetch` uses. */
  #pools: Promise<{ readonly calls: Pool; readonly streams: Pool }> | undefined;
  #requests = 0;
  readonly #closing = new AbortController();

  constructor(connecting: ConnectSettings) {
    this.#connecting = connecting;
    this.url = connecting.origin + connecting.base;
  }

  throwIfClosed(cause?: unknown): void {
    if (this.#closing.signal.aborted) {
      throw new StoreError('closed', 'the store is closed', { cause });
    }
  }

  /** Makes the call, and retries it while its error is retryable. */
  async run<Result>({ signal, attempt, mayRepeat, aborted }: Call<Result>): Promise<Result> {
    const { retryTimeMs } = this.#connecting;
    const startedAt = performance.now();
    for (let tried = 0; ; tried += 1) {
      this.throwIfClosed();
      if (signal?.aborted) throw aborted(signal.reason);
      try {
        return await attempt(tried > 0);
      } catch (error) {
        this.throwIfClosed(error);
        if (signal?.aborted) throw aborted(signal.reason);
        const failure = isStoreError(error) ? error : this.#unavailable(error);
        const waitMs = waitBefore(failure, tried);
        const leftMs = retryTimeMs - (performance.now() - startedAt);
        if (!failure.retryable || waitMs > leftMs || mayRepeat?.() === false) throw failure;
        const ends = [this.#closing.signal, ...(signal ? [signal] : [])];
        await sleep(waitMs, undefined, { signal: AbortSignal.any(ends) }).catch(() => undefined);
      }
    }
  }

  /** An answer with a status below 300, or `alsoStatus`; the caller reads or discards its body. */
  async send(request: Request, signal: AbortSignal | undefined): Promise<Dispatcher.ResponseData> {
    const { connections, apiKey, base, answerTimeoutMs } = this.#connecting;
    if (this.#requests >= connections * QUEUED_PER_CONNECTION) {
      const message = `${this.#requests} requests wait for ${this.url} already`;
      throw new StoreError('storage_unavailable', message, { retryable: true });
    }
    const { method, path, headers, body, isStream = false, alsoStatus } = request;
    // A body may take any time; undici detects one that stalls.
    const limit = body ? undefined : new TimeLimit(answerTimeoutMs, signal);
    const ends = limit?.signal ?? signal;
    this.#requests += 1;
    try {
      this.#pools ??= this.#connect();
      const pools = await this.#pools;
      const answered = pools[isStream ? 'streams' : 'calls'].request({
        method,
        path: base + path,
        // undici accepts any async iterable, although its types do not say so.
        body: (body as Readable | undefined) ?? null,
        headers: {
          ...(apiKey === '' ? {} : { authorization: `Bearer ${apiKey}` }),
          ...headers,
        },
        ...(ends ? { signal: ends } : {}),
      });
      // undici checks the signal only once the request has a connection.
      const answer = await (ends ? abortable(answered, ends) : answered);
      const { statusCode } = answer;
      if (statusCode < 300 || statusCode === alsoStatus) return answer;
      const text = await textOf(answer.body).catch(() => '');
      throw refusalOf(this.url, statusCode, answer.headers['retry-after'], text);
    } finally {
      this.#requests -= 1;
      limit?.end();
    }
  }

  /** Throws `storage_unavailable` for an answer that is not JSON. */
  async json(request: Request, signal: AbortSignal | undefined): Promise<unknown> {
    const { body } = await this.send(request, signal);
    const text = await textOf(body);
    try {
      return JSON.parse(text);
    } catch {
      throw this.notAGateway();
    }
  }

  notAGateway(): StoreError {
    const message = `what answers at ${this.url} is not a gateway of Stevedore`;
    return new StoreError('storage_unavailable', message);
  }

  /** Aborts the requests in flight. */
  async close(): Promise<void> {
    this.#closing.abort();
    const pools = await this.#pools;
    await Promise.all([pools?.calls.destroy(), pools?.streams.destroy()]);
  }

  /** Aborted by `close`. */
  get closing(): AbortSignal {
    return this.#closing.signal;
  }

  #unavailable(cause: unknown): StoreError {
    const reason = isError(cause) ? cause.message || (cause as { code?: string }).code : cause;
    const message = `the gateway at ${this.url} does not answer: ${reason}`;
    return new StoreError('storage_unavailable', message, { cause, retryable: true });
  }

  async #connect(): Promise<{ readonly calls: Pool; readonly streams: Pool }> {
    const { origin, connections, connectTimeoutMs, answerTimeoutMs } = this.#connecting;
    const undici = await import('undici');
    const options = {
      connections,
      connect: { timeout: connectTimeoutMs },
      headersTimeout: answerTimeoutMs,
      bodyTimeout: answerTimeoutMs,
    };
    return { calls: new undici.Pool(origin, options), streams: new undici.Pool(origin, options) };
  }
}

/** As long as the gateway asks, with jitter; at least exponential backoff. */
function waitBefore({ cause }: StoreError, tried: number): number {
  const askedMs = (cause instanceof GatewayRefusal && cause.retryAfterMs) || 0;
  const backoffMs = Math.min(FIRST_WAIT_MS * 2 ** tried, LAST_WAIT_MS);
  return askedMs + backoffMs * (1 + Math.random());
}

async function textOf(body: Readable): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of body as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > MAX_TEXT_BYTES) throw new Error('the answer is too long');
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString();
}

import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { abortable, GrowingPause } from '@stevedore/async';
import { isError, messageOf } from '@stevedore/protocol';
import { isStoreError, StoreError } from '@stevedore/staging/errors';
import type { Dispatcher } from 'undici';
import { invalidOption } from '../options.js';
import { checksumStream, discard, readAll } from './answers.js';
import { refusalIn, refusalOf } from './errors.js';

/**
 * The one HTTP client of gateways. Requests are bounded in number and time; a gateway that stalls
 * holds up few of them, and further ones fail at once. Retries a call within `retryTimeMs` if it
 * allows that. Every failure of a call is a StoreError; a gateway that cannot be reached is
 * `storage_unavailable`.
 */

export interface RequestLimits {
  /** Streams have as many more. */
  readonly connections: number;
  /** Most requests in flight or queued. */
  readonly maxRequests: number;
  readonly connectTimeoutMs: number;
  /** Until the head of an answer, and between two chunks of its body. */
  readonly answerTimeoutMs: number;
}

export interface RequestsSettings extends RequestLimits {
  /** `http://HOST:PORT`, without a path. */
  readonly origin: string;
  /** Prefix of every path, without a trailing slash. */
  readonly base: string;
  readonly retryTimeMs: number;
  readonly identity: Identity;
  /** Through the proxy that the environment names, if it names one: `HTTP_PROXY` and the like. */
  readonly viaProxy?: boolean;
}

/** How a request shows who sends it, and an answer who gives it. */
export interface Identity {
  readonly headersOf: (method: string, path: string) => Readonly<Record<string, string>>;
  /** Throws for an answer that is not a gateway's; `sent` are the headers of the request. */
  readonly check?: (
    sent: Readonly<Record<string, string>>,
    answer: Pick<Dispatcher.ResponseData, 'statusCode' | 'headers'>,
  ) => void;
}

export interface Request {
  readonly method: Dispatcher.HttpMethod;
  /** Behind `base`. */
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Sent as fast as the gateway reads it. The time limit for the answer begins after it. */
  readonly body?: Uint8Array | AsyncIterable<Uint8Array>;
  /** How long the gateway may work before it answers, beyond the time limit for the answer. */
  readonly workMs?: number;
  /** A status of 300 or more whose body is an answer, too. */
  readonly alsoStatus?: number;
  /** The caller may read the answer slowly: streams have their own connections. */
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

/** What a body must be. */
interface Expected {
  readonly status: number;
  readonly bytes: number;
  /** Undefined: not checked. */
  readonly crc32: number | undefined;
}

/** Before a retry, unless the gateway asks for a longer wait. */
const PAUSE = { firstMs: 50, lastMs: 1_000 };
/** Longest answer that is not a file. */
const MAX_TEXT_BYTES = 4 * 2 ** 20;

interface Pools {
  readonly calls: Dispatcher;
  readonly streams: Dispatcher;
}

export class Requests {
  readonly #settings: RequestsSettings;
  readonly url: string;
  /** Loaded on demand: undici replaces the dispatcher that Node's own `fetch` uses. */
  #pools: Promise<Pools> | undefined;
  #requests = 0;
  readonly #closing = new AbortController();

  constructor(settings: RequestsSettings) {
    this.#settings = settings;
    this.url = settings.origin + settings.base;
  }

  throwIfClosed(cause?: unknown): void {
    if (this.#closing.signal.aborted) {
      throw new StoreError('closed', 'the store is closed', { cause });
    }
  }

  /** Makes the call, and retries it while its error is retryable. */
  async run<Result>({ signal, attempt, mayRepeat, aborted }: Call<Result>): Promise<Result> {
    const { retryTimeMs } = this.#settings;
    const startedAt = performance.now();
    const pause = new GrowingPause(PAUSE);
    for (let tried = 0; ; tried += 1) {
      this.throwIfClosed();
      if (signal?.aborted) throw aborted(signal.reason);
      try {
        return await attempt(tried > 0);
      } catch (error) {
        this.throwIfClosed(error);
        if (signal?.aborted) throw aborted(signal.reason);
        const failure = this.failure(error);
        const askedMs = refusalIn(failure)?.retryAfterMs ?? 0;
        const waitMs = askedMs + pause.next() * (1 + Math.random());
        const leftMs = retryTimeMs - (performance.now() - startedAt);
        if (!failure.retryable || waitMs > leftMs || mayRepeat?.() === false) throw failure;
        const ends = [this.#closing.signal, ...(signal ? [signal] : [])];
        await sleep(waitMs, undefined, { signal: AbortSignal.any(ends) }).catch(() => undefined);
      }
    }
  }

  /** A StoreError as it is; any other error means that the gateway cannot be reached. */
  failure(cause: unknown): StoreError {
    if (isStoreError(cause)) return cause;
    const reason = isError(cause) ? cause.message || (cause as { code?: string }).code : cause;
    const message = `the gateway at ${this.url} does not answer: ${reason}`;
    return new StoreError('storage_unavailable', message, { cause });
  }

  /** The head of any answer; the caller reads or discards its body. */
  async exchange(
    { method, path: below, headers, body, workMs = 0, isStream = false }: Request,
    signal: AbortSignal | undefined,
  ): Promise<Dispatcher.ResponseData> {
    const { maxRequests, identity, base, answerTimeoutMs } = this.#settings;
    if (this.#requests >= maxRequests) {
      throw new Error(`${this.#requests} requests wait for it already`);
    }
    const path = base + below;
    const sent = identity.headersOf(method, path);
    this.#requests += 1;
    const end = (): void => {
      this.#requests -= 1;
    };
    this.#pools ??= this.#connect();
    const { origin } = this.#settings;
    const answered = this.#pools.then((pools) =>
      pools[isStream ? 'streams' : 'calls'].request({
        origin,
        method,
        path,
        headers: { ...sent, ...headers },
        // undici accepts any async iterable, although its types do not say so.
        body: (body as Readable | undefined) ?? null,
        headersTimeout: answerTimeoutMs + workMs,
        signal: signal ?? null,
      }),
    );
    answered.then((answer) => answer.body.once('close', end), end);
    // undici checks the signal only once the request has a connection.
    const answer = await (signal ? abortable(answered, signal) : answered);
    try {
      identity.check?.(sent, answer);
      return answer;
    } catch (error) {
      discard(answer.body);
      throw error;
    }
  }

  /** An answer with a status below 300, or `alsoStatus`, whose body is still to be read. */
  async open(request: Request, signal: AbortSignal | undefined): Promise<Dispatcher.ResponseData> {
    // A body may take any time; undici detects one that stalls.
    const limitMs = this.#limitMs(request);
    const limit = limitMs === undefined ? undefined : new TimeLimit(limitMs, signal);
    try {
      const answer = await this.exchange(request, limit?.signal ?? signal);
      const { statusCode, headers, body } = answer;
      if (statusCode < 300 || statusCode === request.alsoStatus) return answer;
      const text = await readAll(body, MAX_TEXT_BYTES).catch(() => '');
      throw refusalOf(this.url, statusCode, headers['retry-after'], String(text));
    } finally {
      limit?.end();
    }
  }

  /** The whole body of such an answer, and its head. The time limit is that of both. */
  async whole(
    request: Request,
    signal: AbortSignal | undefined,
    mostBytes = MAX_TEXT_BYTES,
  ): Promise<{ readonly headers: Dispatcher.ResponseData['headers']; readonly content: Buffer }> {
    const limit = new TimeLimit(this.#limitMs(request), signal);
    try {
      const { headers, body } = await this.open(request, limit.signal);
      return { headers, content: await readAll(body, mostBytes) };
    } finally {
      limit.end();
    }
  }

  /** Undefined for a request with a body. */
  #limitMs({ body, workMs = 0 }: Request): number | undefined {
    return body ? undefined : this.#settings.answerTimeoutMs + workMs;
  }

  /** Throws `storage_unavailable` for an answer that is not JSON. */
  async json(request: Request, signal?: AbortSignal, mostBytes?: number): Promise<unknown> {
    const { content } = await this.whole(request, signal, mostBytes);
    try {
      return JSON.parse(content.toString());
    } catch {
      throw this.notAGateway();
    }
  }

  /** A body of which number and CRC-32 are checked as it passes; `broken` makes its errors. */
  async stream(
    request: Request,
    { status, bytes, crc32 }: Expected,
    broken: (error: Error) => StoreError,
    signal: AbortSignal | undefined,
  ): Promise<Readable> {
    const { body, statusCode, headers } = await this.open(request, signal);
    if (statusCode !== status || Number(headers['content-length']) !== bytes) {
      discard(body);
      throw this.notAGateway();
    }
    const checked = checksumStream(bytes, crc32, this.url, broken);
    // A failure of either side reaches the reader through the last stream.
    return pipeline(body, checked, () => undefined);
  }

  notAGateway(): StoreError {
    const message = `what answers at ${this.url} is not a gateway of Stevedore`;
    return new StoreError('storage_unavailable', message, { retryable: false });
  }

  /** Aborts the requests in flight. */
  async close(): Promise<void> {
    this.#closing.abort();
    const pools = await this.#pools?.catch(() => undefined);
    await Promise.all([pools?.calls.destroy(), pools?.streams.destroy()]);
  }

  /** Aborted by `close`. */
  get closing(): AbortSignal {
    return this.#closing.signal;
  }

  async #connect(): Promise<Pools> {
    const { origin, connections, connectTimeoutMs, answerTimeoutMs, viaProxy } = this.#settings;
    // By its bare name, Bun gives a module of its own, which has no pools.
    const { EnvHttpProxyAgent, Pool } = await import('undici/index.js');
    const connect = { timeout: connectTimeoutMs };
    const options = {
      connections,
      connect,
      headersTimeout: answerTimeoutMs,
      bodyTimeout: answerTimeoutMs,
    };
    // Proxies may refuse to tunnel to other ports than those of HTTPS.
    const proxied = { ...options, proxyTls: connect, requestTls: connect, proxyTunnel: false };
    const pool = () => (viaProxy ? new EnvHttpProxyAgent(proxied) : new Pool(origin, options));
    try {
      return { calls: pool(), streams: pool() };
    } catch (error) {
      throw invalidOption(
        `HTTP_PROXY or HTTPS_PROXY is not the URL of a proxy, such as http://10.0.0.1:3128: ${messageOf(error)}`,
      );
    }
  }
}

/** A signal that aborts with the caller's, and after `limitMs` unless `end` was called. */
class TimeLimit {
  readonly signal: AbortSignal | undefined;
  readonly #timer: NodeJS.Timeout | undefined;

  constructor(limitMs: number | undefined, signal: AbortSignal | undefined) {
    this.signal = signal;
    if (limitMs === undefined) return;
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

import { type IoIdentity, ioHello, Status } from '@stevedore/protocol';
import { ConnectionError, StatusError } from '../errors.js';
import { FrameClient, type PeerAccess } from '../net/frame-client.js';
import { type Endpoint, endpointText } from '../options.js';

/**
 * The connections to one I/O server: opened when they are needed, at most so many, each
 * used by one request at a time; those that wait are served in their order, and not for
 * longer than a request may take. A server that could not be reached is not tried again
 * for a moment, so that a dead one costs its callers nothing. Whoever answers under its
 * address is asked who he is first.
 */

export interface ServerConnectionsOptions extends Endpoint {
  readonly id: string;
  readonly access: PeerAccess;
  readonly maxConnections: number;
  readonly connectTimeoutMs: number;
  readonly timeoutMs: number;
}

/** After a server could not be reached. */
const AWAY_MS = 500;
const MAX_WAITING = 4096;

/** A connection, and the run of the server at its other end. */
export interface ServerLink {
  readonly client: FrameClient;
  readonly run: string;
}

interface Waiting {
  readonly wake: () => void;
}

export class ServerConnections {
  readonly #options: ServerConnectionsOptions;
  readonly #stop = new AbortController();
  readonly #idle: ServerLink[] = [];
  readonly #waiting: Waiting[] = [];
  #open = 0;
  #awayUntilMs = 0;

  constructor(options: ServerConnectionsOptions) {
    this.#options = options;
  }

  get address(): Endpoint {
    return this.#options;
  }

  /** It could not be reached a moment ago. */
  get isAway(): boolean {
    return performance.now() < this.#awayUntilMs;
  }

  /**
   * Runs a request; status 11 if the server cannot be reached. The action may run twice:
   * an idle connection may turn out to be dead.
   */
  async use<Result>(action: (link: ServerLink) => Promise<Result>): Promise<Result> {
    for (let isFirst = true; ; isFirst = false) {
      const { link, isFresh } = await this.#take();
      try {
        const result = await action(link);
        this.#idle.push(link);
        return result;
      } catch (error) {
        if (error instanceof StatusError && error.status !== Status.invalid) {
          this.#idle.push(link);
          throw error;
        }
        this.#drop(link);
        if (!(error instanceof ConnectionError)) throw error;
        if (isFresh || !isFirst) throw this.#away(error);
      } finally {
        this.#waiting.shift()?.wake();
      }
    }
  }

  close(): void {
    this.#stop.abort();
    for (const { client } of this.#idle.splice(0)) client.close();
    for (const { wake } of this.#waiting.splice(0)) wake();
  }

  async #take(): Promise<{ link: ServerLink; isFresh: boolean }> {
    const giveUpAt = performance.now() + this.#options.timeoutMs;
    for (;;) {
      if (this.#stop.signal.aborted) throw this.#unreachable('the storage is closing');
      const link = this.#idle.pop();
      if (link) return { link, isFresh: false };
      if (this.isAway) throw this.#unreachable('it did not answer a moment ago');
      if (this.#open < this.#options.maxConnections) {
        return { link: await this.#connect(), isFresh: true };
      }
      const leftMs = giveUpAt - performance.now();
      if (leftMs <= 0 || this.#waiting.length >= MAX_WAITING) {
        throw this.#unreachable('too many requests wait for it');
      }
      await this.#turn(leftMs);
    }
  }

  #turn(leftMs: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(() => {
        const index = this.#waiting.indexOf(waiting);
        if (index >= 0) this.#waiting.splice(index, 1);
        resolve();
      }, leftMs);
      const waiting = {
        wake: () => {
          clearTimeout(timer);
          resolve();
        },
      };
      this.#waiting.push(waiting);
    });
  }

  async #connect(): Promise<ServerLink> {
    this.#open += 1;
    let client: FrameClient | undefined;
    try {
      client = await this.#opened();
      const { id, run } = await this.#greet(client);
      if (id !== this.#options.id) {
        throw new ConnectionError('ERR_CONNECTION_LOST', `another server, ${id}, answers there`);
      }
      const link = { client, run };
      void client.ended.then(() => {
        const index = this.#idle.indexOf(link);
        if (index < 0) return;
        this.#idle.splice(index, 1);
        this.#open -= 1;
      });
      return link;
    } catch (error) {
      this.#open -= 1;
      client?.close();
      // Somebody who waits may find out for himself.
      this.#waiting.shift()?.wake();
      throw this.#away(error);
    }
  }

  async #opened(): Promise<FrameClient> {
    const { host, port, access, timeoutMs, connectTimeoutMs } = this.#options;
    const late = new AbortController();
    const timer = setTimeout(() => late.abort(), connectTimeoutMs);
    const signal = AbortSignal.any([late.signal, this.#stop.signal]);
    try {
      return await FrameClient.open({ host, port, timeoutMs, access }, signal);
    } finally {
      clearTimeout(timer);
    }
  }

  #greet(client: FrameClient): Promise<IoIdentity> {
    return client.ask(ioHello, undefined);
  }

  #drop({ client }: ServerLink): void {
    this.#open -= 1;
    client.close();
  }

  #away(error: unknown): StatusError {
    this.#awayUntilMs = performance.now() + AWAY_MS;
    return this.#unreachable(error instanceof Error ? error.message : String(error));
  }

  #unreachable(reason: string): StatusError {
    const where = `I/O server ${this.#options.id} at ${endpointText(this.#options)}`;
    return new StatusError(Status.tryAgain, `${where} cannot be reached (${reason})`);
  }
}

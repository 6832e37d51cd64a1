import { ASKS_FOR_LINKS, reportServerId } from '@stevedore/protocol';
import { asError, ConnectionError, FrameClient, type FrameClientOptions } from '@stevedore/wire';

/**
 * The connections to one other member: opened when they are needed, at most so many,
 * each used by one request at a time. What breaks one breaks the session.
 */

export interface PeerConnectionsOptions extends FrameClientOptions {
  readonly ownId: string;
  readonly maxConnections: number;
}

export class PeerConnections {
  readonly #options: PeerConnectionsOptions;
  readonly #stop: AbortController;
  readonly #idle: FrameClient[] = [];
  readonly #open = new Set<FrameClient>();
  #opening = 0;
  readonly #waiting: (() => void)[] = [];
  /** True once the member has ended a connection that it was not asked to end. */
  hasEnded = false;
  /** True if the member can be sent links; others are sent files in their places. */
  takesLinks = false;
  readonly #onEnd: () => void;

  private constructor(options: PeerConnectionsOptions, stop: AbortController, onEnd: () => void) {
    this.#options = options;
    this.#onEnd = onEnd;
    this.#stop = stop;
  }

  /** Resolves when the member has answered; `onEnd` is called when it ends a connection. */
  static async open(
    options: PeerConnectionsOptions,
    signal: AbortSignal,
    onEnd: () => void,
  ): Promise<PeerConnections> {
    const stop = new AbortController();
    const abort = (): void => stop.abort();
    signal.addEventListener('abort', abort, { once: true });
    stop.signal.addEventListener('abort', () => signal.removeEventListener('abort', abort));
    if (signal.aborted) abort();
    const connections = new PeerConnections(options, stop, onEnd);
    try {
      const first = await connections.#connect();
      connections.#idle.push(first);
      return connections;
    } catch (error) {
      connections.close();
      throw error;
    }
  }

  /** As many requests are under way at most. */
  get max(): number {
    return this.#options.maxConnections;
  }

  async use<Result>(action: (peer: FrameClient) => Promise<Result>): Promise<Result> {
    const peer = await this.#take();
    let usable = false;
    try {
      const result = await action(peer);
      usable = true;
      return result;
    } finally {
      if (usable) this.#idle.push(peer);
      else this.#drop(peer);
      this.#waiting.shift()?.();
    }
  }

  close(): void {
    this.#stop.abort();
    for (const peer of [...this.#open]) this.#drop(peer);
    for (const wake of this.#waiting.splice(0)) wake();
  }

  async #take(): Promise<FrameClient> {
    for (;;) {
      if (this.#stop.signal.aborted) {
        throw new ConnectionError('ERR_CONNECTION_LOST', 'the session has ended');
      }
      const idle = this.#idle.pop();
      if (idle) return idle;
      if (this.#open.size + this.#opening < this.#options.maxConnections) return this.#connect();
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    }
  }

  async #connect(): Promise<FrameClient> {
    this.#opening += 1;
    try {
      return await this.#introduced();
    } finally {
      this.#opening -= 1;
    }
  }

  async #introduced(): Promise<FrameClient> {
    const peer = await FrameClient.open(this.#options, this.#stop.signal).catch(lost);
    this.#open.add(peer);
    void peer.ended.then(() => {
      if (!this.#open.has(peer)) return;
      this.hasEnded = true;
      this.#onEnd();
    });
    try {
      this.takesLinks = await peer.ask(reportServerId, this.#options.ownId, ASKS_FOR_LINKS);
      return peer;
    } catch (error) {
      this.#drop(peer);
      throw error;
    }
  }

  #drop(peer: FrameClient): void {
    this.#open.delete(peer);
    peer.close();
  }
}

/** Why the system would not connect does not matter. */
function lost(error: unknown): never {
  throw new ConnectionError('ERR_CONNECTION_LOST', asError(error).message);
}

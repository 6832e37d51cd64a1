import { ConnectionError, StatusError } from '../errors.js';
import { FrameClient, type PeerAccess } from '../net/frame-client.js';
import { type Endpoint, endpointText } from '../options.js';

/**
 * Connections to other metadata servers: so many to each, one request at a time on each,
 * kept open between two. Whoever finds all of them at work waits, and no longer than for
 * an answer.
 */

export interface GuestConnectionsOptions {
  readonly maxPerServer: number;
  readonly timeoutMs: number;
  readonly access: PeerAccess;
}

interface Line {
  readonly idle: FrameClient[];
  open: number;
  readonly waiting: Set<() => void>;
}

export class GuestConnections {
  readonly #options: GuestConnectionsOptions;
  readonly #lines = new Map<string, Line>();
  readonly #stop = new AbortController();

  constructor(options: GuestConnectionsOptions) {
    this.#options = options;
  }

  /** Runs a request that may be repeated: a connection that has ended while it was idle is replaced. */
  async use<Answer>(
    endpoint: Endpoint,
    request: (client: FrameClient) => Promise<Answer>,
  ): Promise<Answer> {
    const line = this.#lineTo(endpoint);
    await this.#place(line);
    try {
      for (;;) {
        const kept = line.idle.pop();
        const client = kept ?? (await this.#connect(endpoint));
        try {
          const answer = await request(client);
          this.#keep(line, client);
          return answer;
        } catch (error) {
          if (error instanceof StatusError) this.#keep(line, client);
          else client.close();
          if (!kept || !(error instanceof ConnectionError)) throw error;
        }
      }
    } finally {
      line.open -= 1;
      const [next] = line.waiting;
      next?.();
    }
  }

  close(): void {
    this.#stop.abort();
    for (const { idle } of this.#lines.values()) for (const client of idle) client.close();
    this.#lines.clear();
  }

  #lineTo(endpoint: Endpoint): Line {
    const key = endpointText(endpoint);
    const known = this.#lines.get(key);
    if (known) return known;
    const line = { idle: [], open: 0, waiting: new Set<() => void>() };
    this.#lines.set(key, line);
    return line;
  }

  async #place(line: Line): Promise<void> {
    while (line.open >= this.#options.maxPerServer) {
      await new Promise<void>((resolve, reject) => {
        const done = (): void => {
          clearTimeout(timer);
          line.waiting.delete(done);
          resolve();
        };
        const timer = setTimeout(() => {
          line.waiting.delete(done);
          reject(new ConnectionError('ERR_CONNECTION_TIMEOUT', 'all connections are at work'));
        }, this.#options.timeoutMs);
        line.waiting.add(done);
      });
    }
    line.open += 1;
  }

  #connect(endpoint: Endpoint): Promise<FrameClient> {
    const { timeoutMs, access } = this.#options;
    return FrameClient.open({ ...endpoint, timeoutMs, access }, this.#stop.signal);
  }

  #keep(line: Line, client: FrameClient): void {
    if (this.#stop.signal.aborted) client.close();
    else line.idle.push(client);
  }
}

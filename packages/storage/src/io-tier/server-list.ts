import { type IoServerRecord, ioServerList } from '@stevedore/protocol';
import { ConnectionError, StatusError } from '../errors.js';
import { FrameClient, type PeerAccess } from '../net/frame-client.js';
import { type Endpoint, endpointText } from '../options.js';
import { pause } from '../pause.js';

/**
 * Asks every tracker again and again which I/O servers there are. A C tracker does not
 * know the question and is asked rarely. What several trackers say is put together: a
 * server is active if one of them says so.
 */

export interface ServerListOptions {
  readonly trackers: readonly Endpoint[];
  readonly access: PeerAccess;
  readonly timeoutMs: number;
  readonly intervalMs: number;
  readonly onList: (servers: readonly IoServerRecord[]) => void;
}

/** Before a tracker that does not know the question, or is away, is asked again. */
const UNKNOWN_MS = 30_000;
const AWAY_MS = 1000;

export class ServerList {
  readonly #options: ServerListOptions;
  readonly #stop = new AbortController();
  readonly #running: Promise<unknown>;
  readonly #lists = new Map<string, readonly IoServerRecord[]>();

  constructor(options: ServerListOptions) {
    this.#options = options;
    this.#running = Promise.all(options.trackers.map((tracker) => this.#follow(tracker)));
  }

  async close(): Promise<void> {
    this.#stop.abort();
    await this.#running;
  }

  async #follow(tracker: Endpoint): Promise<void> {
    const { signal } = this.#stop;
    while (!signal.aborted) {
      let asked = false;
      let waitMs = AWAY_MS;
      try {
        const { timeoutMs, access } = this.#options;
        const client = await FrameClient.open({ ...tracker, timeoutMs, access }, signal);
        try {
          while (!signal.aborted) {
            asked = true;
            const servers = await client.ask(ioServerList, undefined);
            asked = false;
            this.#take(tracker, servers);
            await Promise.race([pause(this.#options.intervalMs, signal), client.ended]);
          }
        } finally {
          client.close();
        }
      } catch (error) {
        // It answers 22, or closes.
        const isClosed = error instanceof ConnectionError && error.code === 'ERR_CONNECTION_LOST';
        const wasNeverTold = !this.#lists.has(endpointText(tracker));
        if (error instanceof StatusError || (asked && isClosed && wasNeverTold))
          waitMs = UNKNOWN_MS;
      }
      await pause(waitMs, signal);
    }
  }

  #take(tracker: Endpoint, servers: readonly IoServerRecord[]): void {
    this.#lists.set(endpointText(tracker), servers);
    const all = new Map<string, IoServerRecord>();
    for (const list of this.#lists.values()) {
      for (const server of list) {
        if (server.isActive || !all.get(server.id)?.isActive) all.set(server.id, server);
      }
    }
    this.#options.onList([...all.values()]);
  }
}

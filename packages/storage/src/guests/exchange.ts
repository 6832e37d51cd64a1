import {
  type MetadataServerList,
  type MetadataServerLoad,
  metadataServerReport,
} from '@stevedore/protocol';
import { StatusError } from '../errors.js';
import { FrameClient, type PeerAccess } from '../net/frame-client.js';
import type { Endpoint } from '../options.js';

/**
 * Tells a tracker the own load at the end of every interval, and hears that of the
 * others and whom it may give files. The first tracker that answers is asked, so that
 * one of them does the lending; the others are asked when it is away. A C tracker does
 * not know the question: it is left alone for a while.
 */

export interface ExchangeOptions {
  readonly trackers: readonly Endpoint[];
  /** Own address where it is one that names this machine: trackers know storages by it. */
  readonly localAddress?: string;
  readonly timeoutMs: number;
  readonly access: PeerAccess;
}

const UNKNOWN_MS = 30_000;
const AWAY_MS = 1000;

export class Exchange {
  readonly #options: ExchangeOptions;
  readonly #stop = new AbortController();
  /** When a tracker may be asked again, by its place in the list. */
  readonly #notBefore: number[];
  #client: { readonly index: number; readonly client: FrameClient } | undefined;

  constructor(options: ExchangeOptions) {
    this.#options = options;
    this.#notBefore = options.trackers.map(() => 0);
  }

  /** Undefined if no tracker answers, or none has heard of such a thing. */
  async report(load: MetadataServerLoad): Promise<MetadataServerList | undefined> {
    for (const [index, tracker] of this.#options.trackers.entries()) {
      if (this.#stop.signal.aborted) return undefined;
      if (performance.now() < this.#notBefore[index]!) continue;
      try {
        const client = await this.#clientOf(index, tracker);
        return await client.ask(metadataServerReport, load);
      } catch (error) {
        const isUnknown = error instanceof StatusError;
        this.#drop();
        this.#notBefore[index] = performance.now() + (isUnknown ? UNKNOWN_MS : AWAY_MS);
      }
    }
    return undefined;
  }

  close(): void {
    this.#stop.abort();
    this.#drop();
  }

  async #clientOf(index: number, tracker: Endpoint): Promise<FrameClient> {
    if (this.#client?.index === index) return this.#client.client;
    this.#drop();
    const { localAddress, timeoutMs, access } = this.#options;
    const from = localAddress === undefined ? {} : { localAddress };
    const client = await FrameClient.open(
      { ...tracker, ...from, timeoutMs, access },
      this.#stop.signal,
    );
    this.#client = { index, client };
    void client.ended.then(() => {
      if (this.#client?.client === client) this.#client = undefined;
    });
    return client;
  }

  #drop(): void {
    this.#client?.client.close();
    this.#client = undefined;
  }
}

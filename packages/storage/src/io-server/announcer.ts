import { ioServerReport } from '@stevedore/protocol';
import { asError } from '../errors.js';
import { FrameClient, type PeerAccess } from '../net/frame-client.js';
import { type Endpoint, endpointText, isOwnAddress } from '../options.js';

/**
 * Tells a tracker again and again that this I/O server lives and how much room it has.
 * Begins anew whenever the connection breaks; only the first failure in a row is
 * reported.
 */

export interface AnnouncerOptions {
  readonly tracker: Endpoint;
  /** Address the server listens on; the connection comes from it if it names one. */
  readonly host: string;
  readonly port: number;
  readonly id: string;
  readonly access: PeerAccess;
  readonly timeoutMs: number;
  readonly intervalMs: number;
  readonly reconnectDelayMs: number;
  readonly space: () => Promise<{ readonly totalBytes: number; readonly freeBytes: number }>;
  /** A tracker has taken a report. */
  readonly onJoined: () => void;
  readonly onError: (error: Error) => void;
}

export class Announcer {
  readonly #options: AnnouncerOptions;
  readonly #stop = new AbortController();
  readonly #running: Promise<void>;

  constructor(options: AnnouncerOptions) {
    this.#options = options;
    this.#running = this.#run();
  }

  close(): Promise<void> {
    this.#stop.abort();
    return this.#running;
  }

  async #run(): Promise<void> {
    const { tracker, reconnectDelayMs, onError } = this.#options;
    const { signal } = this.#stop;
    let failed = false;
    while (!signal.aborted) {
      try {
        await this.#session(() => {
          failed = false;
        });
      } catch (error) {
        if (!failed && !signal.aborted) {
          const { message } = asError(error);
          onError(new Error(`Tracker ${endpointText(tracker)}: ${message}`, { cause: error }));
        }
        failed = true;
      }
      await pause(reconnectDelayMs, signal);
    }
  }

  async #session(joined: () => void): Promise<void> {
    const { tracker, host, port, id, access, timeoutMs } = this.#options;
    const { intervalMs, space, onJoined } = this.#options;
    const { signal } = this.#stop;
    const localAddress = isOwnAddress(host) ? { localAddress: host } : {};
    const client = await FrameClient.open(
      { ...tracker, ...localAddress, timeoutMs, access },
      signal,
    );
    try {
      while (!signal.aborted) {
        const { totalBytes, freeBytes } = await space();
        await client.ask(ioServerReport, { id, port, totalBytes, freeBytes });
        joined();
        onJoined();
        await Promise.race([pause(intervalMs, signal), client.ended]);
      }
    } finally {
      client.close();
    }
  }
}

/** Waits so long, or until the signal. */
export function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      clearTimeout(timer);
      signal.removeEventListener('abort', done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal.addEventListener('abort', done);
    if (signal.aborted) done();
  });
}

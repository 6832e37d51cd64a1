import { ioServerReport } from '@stevedore/protocol';
import type { PeerAccess } from '../net/frame-client.js';
import { keepSession, openToTracker } from '../net/tracker-session.js';
import type { Endpoint } from '../options.js';
import { pause } from '../pause.js';

/**
 * Tells a tracker again and again that this I/O server lives and how much room it has,
 * and begins anew whenever the connection breaks.
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
    const { tracker, reconnectDelayMs, onError } = options;
    const { signal } = this.#stop;
    this.#running = keepSession({
      ...{ tracker, signal, onError },
      session: (joined) => this.#session(joined),
      pause: () => pause(reconnectDelayMs, signal),
    });
  }

  close(): Promise<void> {
    this.#stop.abort();
    return this.#running;
  }

  async #session(joined: () => void): Promise<void> {
    const { tracker, host, port, id, access, timeoutMs } = this.#options;
    const { intervalMs, space, onJoined } = this.#options;
    const { signal } = this.#stop;
    const client = await openToTracker(tracker, host, { timeoutMs, access }, signal);
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

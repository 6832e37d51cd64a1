import {
  type IoServerRecord,
  type IoServerReport,
  MAX_IO_SERVERS,
  Status,
} from '@stevedore/protocol';
import { StatusError } from '../errors.js';

/**
 * The I/O servers that a tracker knows, by their ids. In memory: they report again. One
 * that is connected and has reported lately is active; one that has not been heard of
 * for a day is forgotten, and is back with its next report.
 */

const FORGOTTEN_MS = 86_400_000;

interface Known {
  readonly report: IoServerReport;
  readonly host: string;
  /** Stands for the connection of the last report. */
  readonly link: object;
  readonly heardMs: number;
  readonly isConnected: boolean;
}

export class IoServers {
  readonly #activeMs: number;
  readonly #known = new Map<string, Known>();

  /** A server that has not reported for `activeMs` gets nothing new. */
  constructor(activeMs: number) {
    this.#activeMs = activeMs;
  }

  /** Status 28 if there are too many. */
  report(report: IoServerReport, host: string, link: object, nowMs: number): void {
    if (!this.#known.has(report.id)) {
      this.#forget(nowMs);
      if (this.#known.size >= MAX_IO_SERVERS) {
        throw new StatusError(Status.noSpace, 'too many I/O servers');
      }
    }
    this.#known.set(report.id, { report, host, link, heardMs: nowMs, isConnected: true });
  }

  /** The connection has ended. */
  leave(link: object): void {
    for (const [id, known] of this.#known) {
      if (known.link === link) this.#known.set(id, { ...known, isConnected: false });
    }
  }

  list(nowMs: number): IoServerRecord[] {
    return [...this.#known.values()]
      .map(({ report, host, heardMs, isConnected }) => ({
        ...report,
        host,
        isActive: isConnected && nowMs - heardMs <= this.#activeMs,
      }))
      .sort((one, other) => (one.id < other.id ? -1 : 1));
  }

  #forget(nowMs: number): void {
    for (const [id, { heardMs, isConnected }] of this.#known) {
      if (!isConnected && nowMs - heardMs > FORGOTTEN_MS) this.#known.delete(id);
    }
  }
}

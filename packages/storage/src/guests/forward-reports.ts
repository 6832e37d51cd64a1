import {
  type Forward,
  type ForwardTarget,
  forwardBytes,
  forwardReport,
  MAX_LEASE_LIST_BYTES,
  Status,
} from '@stevedore/protocol';
import { StatusError } from '../errors.js';
import { FrameClient, type PeerAccess } from '../net/frame-client.js';
import type { Endpoint } from '../options.js';
import { pause } from '../pause.js';

/**
 * Tells every tracker which storages answer for files of this one: all of it whenever a
 * connection begins, and every change after that. A tracker that restarts has to be told
 * again, so the connection stays. A C tracker knows nothing of it and is left alone.
 */

export interface ForwardReportsOptions {
  readonly trackers: readonly Endpoint[];
  /** Own address where it is one that names this machine: trackers know storages by it. */
  readonly localAddress?: string;
  readonly timeoutMs: number;
  readonly access: PeerAccess;
  /** This storage; undefined until a tracker has told. */
  readonly self: () => Sender | undefined;
}

interface Sender extends ForwardTarget {
  readonly port: number;
}

/** Changes are gathered for so long. */
const GATHER_MS = 10;
const RETRY_MS = 500;
const UNKNOWN_MS = 30_000;

export class ForwardReports {
  readonly #forwards = new Map<string, ForwardTarget>();
  readonly #links: readonly TrackerForwards[];

  constructor(options: ForwardReportsOptions) {
    this.#links = options.trackers.map(
      (tracker) => new TrackerForwards(tracker, options, this.#forwards),
    );
  }

  /** Reads of the file of this name go there from now on; undefined: they come here. */
  set(name: string, target: ForwardTarget | undefined): void {
    if (target) this.#forwards.set(name, target);
    else if (!this.#forwards.delete(name)) return;
    for (const link of this.#links) link.changed(name);
  }

  async close(): Promise<void> {
    await Promise.all(this.#links.map((link) => link.close()));
  }
}

class TrackerForwards {
  readonly #tracker: Endpoint;
  readonly #options: ForwardReportsOptions;
  readonly #forwards: ReadonlyMap<string, ForwardTarget>;
  readonly #stop = new AbortController();
  /** Names of which the tracker knows something else. */
  readonly #changed = new Set<string>();
  #wake: () => void = () => {};
  readonly #running: Promise<void>;

  constructor(
    tracker: Endpoint,
    options: ForwardReportsOptions,
    forwards: ReadonlyMap<string, ForwardTarget>,
  ) {
    this.#tracker = tracker;
    this.#options = options;
    this.#forwards = forwards;
    this.#running = this.#run();
  }

  changed(name: string): void {
    this.#changed.add(name);
    this.#wake();
  }

  close(): Promise<void> {
    this.#stop.abort();
    this.#wake();
    return this.#running;
  }

  async #run(): Promise<void> {
    const { signal } = this.#stop;
    while (!signal.aborted) {
      let waitMs = RETRY_MS;
      try {
        // Nothing to tell: no connection is kept for it.
        if (this.#forwards.size > 0) await this.#session();
      } catch (error) {
        const isUnknown = error instanceof StatusError && error.status === Status.invalid;
        if (isUnknown) waitMs = UNKNOWN_MS;
      }
      this.#changed.clear();
      await pause(waitMs, signal);
    }
  }

  async #session(): Promise<void> {
    const { localAddress, timeoutMs, access, self } = this.#options;
    const { signal } = this.#stop;
    const from = localAddress === undefined ? {} : { localAddress };
    const sender = self();
    if (!sender) return;
    const client = await FrameClient.open({ ...this.#tracker, ...from, timeoutMs, access }, signal);
    let hasEnded = false;
    void client.ended.then(() => {
      hasEnded = true;
      this.#wake();
    });
    try {
      for (const name of this.#forwards.keys()) this.#changed.add(name);
      for (let begins = true; !hasEnded && !signal.aborted; begins = false) {
        if (!begins && this.#changed.size === 0) await this.#something();
        const forwards = this.#next();
        if (begins || forwards.length > 0) {
          await client.ask(forwardReport, { ...sender, begins, forwards });
        }
        if (this.#changed.size === 0) await pause(GATHER_MS, signal);
      }
    } finally {
      client.close();
    }
  }

  /** As many changes as fit into a report. */
  #next(): Forward[] {
    const forwards: Forward[] = [];
    let bytes = 0;
    for (const name of this.#changed) {
      const forward = { name, target: this.#forwards.get(name) };
      bytes += forwardBytes(forward);
      if (bytes > MAX_LEASE_LIST_BYTES) break;
      this.#changed.delete(name);
      forwards.push(forward);
    }
    return forwards;
  }

  #something(): Promise<void> {
    return new Promise((resolve) => {
      this.#wake = () => {
        this.#wake = () => {};
        resolve();
      };
    });
  }
}

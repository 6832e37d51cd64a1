import type { ServedIn } from '@stevedore/balance';
import { type Counts, REQUEST_CLASSES, type Scheduler } from './scheduler.js';

/**
 * Probes: short times in which metadata has the server to itself. While requests of both classes
 * arrive, small files are held back for a twentieth of the time, after pauses of varying length. A
 * probe begins when no small file is at the disk and the delay it caused is over, and lasts for
 * several metadata requests. Comparing metadata in a probe with metadata just before it cancels
 * whatever else disturbs the machine.
 */

export interface ProbesOptions {
  readonly scheduler: Scheduler;
  readonly intervalMs: number;
  readonly busyMeter: () => BusyMeter;
  readonly now: () => number;
  /** Both classes have requests, or no longer have. */
  readonly onCompetition: (isThere: boolean) => void;
  readonly onProbe: (probe: Probe) => void;
}

/** Share of the time since its last call in which the thread was busy, 0 to 1. */
export type BusyMeter = () => number;

export interface Probe {
  readonly alone: ServedIn;
  /** Between the previous probe and this one; undefined for the first. */
  readonly beside: ServedIn | undefined;
  readonly busyShare: number;
}

/** Shares of an interval. */
const LOOK_SHARE = 0.05;
const LEAST_PROBE_SHARE = 0.0125;
/** A probe is long enough for so many requests of one client. */
const LEAST_REQUESTS = 3;
/** A pause is 15 to 23 times as long as a probe, never the same twice in a row. */
const LEAST_PAUSE = 15;
const PAUSE_SPREAD = 8;
const PAUSE_STEP = 0.618;
/** A probe is given up if small files take so many times its length to leave the disk. */
const PATIENCE = 4;

export class Probes {
  readonly #options: ProbesOptions;
  readonly #busy: BusyMeter;
  #timer: NodeJS.Timeout | undefined;
  #isCompetition = false;
  /** When a class last had requests, and its requests served until then. */
  readonly #seen = {
    metadata: { atMs: Number.NEGATIVE_INFINITY, requests: 0 },
    smallFile: { atMs: Number.NEGATIVE_INFINITY, requests: 0 },
  };
  #pause = 0;
  #nextAtMs = 0;
  /** The end of the last probe. */
  #since: { readonly atMs: number; readonly metadata: Counts } | undefined;

  constructor(options: ProbesOptions) {
    this.#options = options;
    this.#busy = options.busyMeter();
  }

  start(): void {
    this.#after(this.#options.intervalMs * LOOK_SHARE, () => this.#look());
  }

  close(): void {
    clearTimeout(this.#timer);
    this.#options.scheduler.release();
  }

  #look(): void {
    const { now, intervalMs, onCompetition } = this.#options;
    this.#lookWhoIsThere();
    const since = now() - intervalMs;
    const isCompetition = REQUEST_CLASSES.every((kind) => this.#seen[kind].atMs > since);
    if (isCompetition !== this.#isCompetition) {
      this.#isCompetition = isCompetition;
      this.#since = undefined;
      this.#nextAtMs = 0;
      onCompetition(isCompetition);
    }
    if (isCompetition && now() >= this.#nextAtMs) this.#begin();
    else this.start();
  }

  #lookWhoIsThere(): void {
    const { scheduler, now } = this.#options;
    for (const kind of REQUEST_CLASSES) {
      const seen = this.#seen[kind];
      const { servedRequests } = scheduler.totals(kind);
      if (scheduler.has(kind) || servedRequests > seen.requests) seen.atMs = now();
      seen.requests = servedRequests;
    }
  }

  #begin(): void {
    const { scheduler, intervalMs } = this.#options;
    const requestMs = this.#requestMs();
    const leastMs = Math.max(intervalMs * LEAST_PROBE_SHARE, requestMs * LEAST_REQUESTS);
    const lastsMs = Math.min(leastMs, intervalMs);
    this.#after(lastsMs * PATIENCE, () => this.#end(lastsMs));
    scheduler.hold(() => {
      this.#after(Math.min(requestMs, lastsMs), () => this.#alone(lastsMs));
    });
  }

  /** Mean time of a metadata request since the last probe. */
  #requestMs(): number {
    const { scheduler, now } = this.#options;
    const { ranMs, servedRequests } = scheduler.totals('metadata');
    const before = this.#since;
    if (!before) return ranMs / Math.max(1, servedRequests);
    const requests = servedRequests - before.metadata.servedRequests;
    return requests > 0 ? (ranMs - before.metadata.ranMs) / requests : now() - before.atMs;
  }

  #alone(lastsMs: number): void {
    const { now, onProbe, scheduler } = this.#options;
    const begunAtMs = now();
    const before = scheduler.totals('metadata');
    const beside =
      this.#since && between(this.#since.metadata, before, begunAtMs - this.#since.atMs);
    this.#busy();
    this.#after(lastsMs, () => {
      const after = scheduler.totals('metadata');
      const ms = now() - begunAtMs;
      const busyShare = this.#busy();
      this.#end(lastsMs);
      if (ms <= 0) return;
      const alone = between(before, after, ms);
      onProbe({ alone, beside, busyShare });
    });
  }

  #end(lastsMs: number): void {
    const { scheduler, now } = this.#options;
    this.#pause = (this.#pause + PAUSE_STEP) % 1;
    this.#nextAtMs = now() + lastsMs * (LEAST_PAUSE + PAUSE_SPREAD * this.#pause);
    this.#since = { atMs: now(), metadata: scheduler.totals('metadata') };
    scheduler.release();
    this.start();
  }

  /** One timer at a time. */
  #after(ms: number, action: () => void): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(action, ms);
    this.#timer.unref();
  }
}

function between(before: Counts, after: Counts, ms: number): ServedIn {
  return {
    bytes: after.servedBytes - before.servedBytes,
    requests: after.servedRequests - before.servedRequests,
    ms,
  };
}

import type { Observation } from '@stevedore/balance';
import { Status } from '@stevedore/protocol';
import { StatusError } from '@stevedore/wire';

/**
 * Decides in which order requests reach the disk: metadata first, then small files, a limited
 * number at a time and only a few of them beside metadata, because sharing the disk and its syncs
 * slows metadata down in any order. Small files also have a rate: clients wait for an answer before
 * the next request, and without a rate other requests would fill these gaps. Both queues are
 * bounded in length and time; a request that finds its queue full or waits too long is answered
 * "try again". Bytes and requests, served and waiting, are counted per class and interval. Handlers
 * state what a request costs; see costs.ts.
 */

export type RequestClass = 'metadata' | 'smallFile';
export const REQUEST_CLASSES: readonly RequestClass[] = ['metadata', 'smallFile'];

export interface SchedulerOptions {
  /** Most requests at the disk. */
  readonly maxRunning: number;
  /** Most small-file requests at the disk beside metadata. */
  readonly maxBesideMetadata: number;
  readonly maxWaitMs: number;
  readonly now: () => number;
}

export interface ClassInterval extends Observation, Counts {
  readonly waitingRequests: number;
}

interface Waiting {
  readonly cost: number;
  readonly sinceMs: number;
  readonly begin: () => void;
  readonly refuse: (error: Error) => void;
}

/** Most waiting requests of a class. */
const MAX_WAITING = 4096;
/** Unused credit expires after this time. */
const MAX_CREDIT_MS = 10;

export class Scheduler {
  readonly #options: SchedulerOptions;
  readonly #waiting = { metadata: new Set<Waiting>(), smallFile: new Set<Waiting>() };
  readonly #tallies = { metadata: new Tally(), smallFile: new Tally() };
  /** Small-file cost that may start per millisecond; undefined: no limit. */
  #rate: number | undefined;
  /** Credit available now. A request that costs more leaves a debt to those after it. */
  #credit = 0;
  #creditAtMs = 0;
  #timer: NodeJS.Timeout | undefined;
  /** Small files are held back; called once when none is at the disk. */
  #hold: { onAlone: (() => void) | undefined } | undefined;

  constructor(options: SchedulerOptions) {
    this.#options = options;
  }

  get running(): number {
    return this.#tallies.metadata.running + this.#tallies.smallFile.running;
  }

  /** Totals since the start. */
  totals(kind: RequestClass): Counts {
    return this.#tallies[kind].totals();
  }

  has(kind: RequestClass): boolean {
    return this.#tallies[kind].running > 0 || this.#waiting[kind].size > 0;
  }

  /** Runs the action in its turn. Status 11 if its turn does not come in time. */
  async run<Result>(
    kind: RequestClass,
    cost: number,
    action: () => Promise<Result>,
  ): Promise<Result> {
    const cameAtMs = this.#options.now();
    this.#refill();
    if (this.#mayBegin(kind) && this.#waiting[kind].size === 0) this.#begin(kind, cost);
    else await this.#turn(kind, cost);
    const begunAtMs = this.#options.now();
    try {
      return await action();
    } finally {
      const waitedMs = begunAtMs - cameAtMs;
      const ranMs = this.#options.now() - begunAtMs;
      this.#tallies[kind].ended({ cost, waitedMs, ranMs });
      this.#aloneFromHere();
      this.#beginNext();
    }
  }

  /** Ends the interval: returns its totals, and refuses requests that have waited too long. */
  endInterval(): Record<RequestClass, ClassInterval> {
    const oldest = this.#options.now() - this.#options.maxWaitMs;
    for (const kind of REQUEST_CLASSES) {
      for (const each of this.#waiting[kind]) {
        if (each.sinceMs > oldest) break;
        this.#waiting[kind].delete(each);
        this.#tallies[kind].refused();
        each.refuse(busy());
      }
    }
    const interval = (kind: RequestClass): ClassInterval => {
      let waitingBytes = 0;
      for (const { cost } of this.#waiting[kind]) waitingBytes += cost;
      const counts = this.#tallies[kind].endInterval();
      return { ...counts, waitingBytes, waitingRequests: this.#waiting[kind].size };
    };
    return { metadata: interval('metadata'), smallFile: interval('smallFile') };
  }

  /** Small-file load that may start per millisecond; undefined: no limit. */
  allow(smallFileBytesPerMs: number | undefined): void {
    this.#refill();
    this.#rate = smallFileBytesPerMs;
    this.#beginNext();
  }

  /** Holds small files back until `release`; calls back once when none is at the disk. */
  hold(onAlone: () => void): void {
    this.#hold = { onAlone };
    this.#aloneFromHere();
  }

  /** Lets small files start again. */
  release(): void {
    this.#hold = undefined;
    this.#beginNext();
  }

  /** No request waits for a timer from now on. */
  close(): void {
    clearTimeout(this.#timer);
    this.#rate = undefined;
    this.#beginNext();
  }

  #mayBegin(kind: RequestClass): boolean {
    const { maxRunning, maxBesideMetadata } = this.#options;
    if (this.running >= maxRunning) return false;
    if (kind === 'metadata') return true;
    if (this.#hold) return false;
    const { metadata, smallFile } = this.#tallies;
    if (metadata.running > 0 && smallFile.running >= maxBesideMetadata) return false;
    return this.#rate === undefined || this.#credit > 0;
  }

  #begin(kind: RequestClass, cost: number): void {
    this.#tallies[kind].running += 1;
    if (kind === 'smallFile' && this.#rate !== undefined) this.#credit -= cost;
  }

  /** Credit grows with time, and unused credit expires soon. */
  #refill(): void {
    const nowMs = this.#options.now();
    const rate = this.#rate ?? 0;
    const most = rate * MAX_CREDIT_MS;
    this.#credit = Math.min(this.#credit + rate * (nowMs - this.#creditAtMs), most);
    this.#creditAtMs = nowMs;
  }

  /** Only a timer wakes requests that wait for credit. */
  #wakeLater(): void {
    if (!this.#rate || this.#timer || this.#hold) return;
    if (this.#waiting.smallFile.size === 0 || this.#credit > 0) return;
    const waitMs = Math.max(1, Math.ceil(-this.#credit / this.#rate));
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.#beginNext();
    }, waitMs);
    this.#timer.unref();
  }

  #aloneFromHere(): void {
    if (!this.#hold || this.#tallies.smallFile.running > 0) return;
    const { onAlone } = this.#hold;
    this.#hold.onAlone = undefined;
    onAlone?.();
  }

  #turn(kind: RequestClass, cost: number): Promise<void> {
    if (this.#waiting[kind].size >= MAX_WAITING) {
      this.#tallies[kind].refused();
      return Promise.reject(busy());
    }
    return new Promise((resolve, reject) => {
      this.#waiting[kind].add({
        cost,
        sinceMs: this.#options.now(),
        begin: resolve,
        refuse: reject,
      });
      this.#wakeLater();
    });
  }

  #beginNext(): void {
    this.#refill();
    for (const kind of REQUEST_CLASSES) {
      for (const each of this.#waiting[kind]) {
        if (!this.#mayBegin(kind)) break;
        this.#waiting[kind].delete(each);
        this.#begin(kind, each.cost);
        each.begin();
      }
    }
    this.#wakeLater();
  }
}

function busy(): StatusError {
  return new StatusError(Status.tryAgain, 'too many requests wait');
}

/** Counts of a class: totals that only grow, and how many requests run. */

export interface Counts {
  readonly servedBytes: number;
  readonly servedRequests: number;
  /** Total time of its requests, waiting and at the disk. */
  readonly waitedMs: number;
  readonly ranMs: number;
  /** Requests that were answered with "try again". */
  readonly busyAnswers: number;
}

interface Served {
  readonly cost: number;
  readonly waitedMs: number;
  readonly ranMs: number;
}

class Tally {
  readonly #counts: Changing = { ...NO_COUNTS };
  #atLastInterval: Counts = NO_COUNTS;
  /** Requests at the disk. */
  running = 0;

  ended({ cost, waitedMs, ranMs }: Served): void {
    this.running -= 1;
    this.#counts.servedBytes += cost;
    this.#counts.servedRequests += 1;
    this.#counts.waitedMs += waitedMs;
    this.#counts.ranMs += ranMs;
  }

  refused(): void {
    this.#counts.busyAnswers += 1;
  }

  /** Totals since the start. */
  totals(): Changing {
    return { ...this.#counts };
  }

  /** Totals since the last call. */
  endInterval(): Counts {
    const counts = this.totals();
    const before = this.#atLastInterval;
    this.#atLastInterval = { ...counts };
    for (const name of NAMES) counts[name] -= before[name];
    return counts;
  }
}

type Changing = { -readonly [Name in keyof Counts]: Counts[Name] };

export const NO_COUNTS: Counts = {
  servedBytes: 0,
  servedRequests: 0,
  waitedMs: 0,
  ranMs: 0,
  busyAnswers: 0,
};
const NAMES = Object.keys(NO_COUNTS) as (keyof Counts)[];

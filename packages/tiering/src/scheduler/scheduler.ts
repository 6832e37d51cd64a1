import type { Observation } from '@stevedore/balance';
import { Status } from '@stevedore/protocol';
import { StatusError } from '@stevedore/wire';

/**
 * The order in which requests get to the disk: metadata first, small files behind it,
 * so many at a time, and few of them while metadata is there: what shares a disk and its
 * syncs with metadata slows it down, however it is ordered. Small files have a rate as
 * well: clients that wait for their answer before they send the next request leave gaps
 * into which everything else would rush. Both queues are bounded in number and time; who
 * finds one full, or has waited too long, is answered that the storage is busy, and comes
 * back. Bytes and requests that were served and that wait are counted per class and
 * interval.
 * Each handler says what its request costs; see costs.ts.
 */

export type RequestClass = 'metadata' | 'smallFile';
export const REQUEST_CLASSES: readonly RequestClass[] = ['metadata', 'smallFile'];

export interface SchedulerOptions {
  /** Requests that are at the disk at once. */
  readonly maxRunning: number;
  /** Small-file requests that are at the disk at once while metadata is there too. */
  readonly maxBesideMetadata: number;
  /** Requests of a class that wait. */
  readonly maxWaiting: number;
  readonly maxWaitMs: number;
  readonly now: () => number;
}

/** An interval of a class. */
export interface ClassInterval extends Observation, Counts {
  readonly waitingRequests: number;
}

interface Waiting {
  readonly cost: number;
  readonly sinceMs: number;
  readonly begin: () => void;
  readonly refuse: (error: Error) => void;
}

/** Credit that was not used is kept for so long. */
const MAX_CREDIT_MS = 10;

export class Scheduler {
  readonly #options: SchedulerOptions;
  readonly #waiting = { metadata: new Set<Waiting>(), smallFile: new Set<Waiting>() };
  readonly #tallies = { metadata: new Tally(), smallFile: new Tally() };
  /** Cost of small files that may begin in a millisecond; undefined: any. */
  #rate: number | undefined;
  /** Of that, what may begin now; what a request costs more is taken from those after it. */
  #credit = 0;
  #creditAtMs = 0;
  #timer: NodeJS.Timeout | undefined;
  /** Small files are held back; called, once, when none is at the disk any more. */
  #hold: { onAlone: (() => void) | undefined } | undefined;

  constructor(options: SchedulerOptions) {
    this.#options = options;
  }

  get running(): number {
    return this.#tallies.metadata.running + this.#tallies.smallFile.running;
  }

  /** Since the beginning. */
  totals(kind: RequestClass): Counts {
    return this.#tallies[kind].totals();
  }

  /** True if there are requests of this class, at the disk or waiting for it. */
  has(kind: RequestClass): boolean {
    return this.#tallies[kind].running > 0 || this.#waiting[kind].size > 0;
  }

  /** Runs the action when it is its turn; status 11 if that does not come. */
  async run<Result>(
    kind: RequestClass,
    cost: number,
    action: () => Promise<Result>,
  ): Promise<Result> {
    const cameAtMs = this.#options.now();
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

  /** Ends the interval: returns what it was, and refuses requests that have waited too long. */
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

  /** The small-file load that may begin in a millisecond; undefined: all of it. */
  allow(smallFileBytesPerMs: number | undefined): void {
    this.#refill();
    this.#rate = smallFileBytesPerMs;
    this.#beginNext();
  }

  /** No small-file request begins until `release`; tells, once, when none is at the disk any more. */
  hold(onAlone: () => void = () => {}): void {
    this.#hold = { onAlone };
    this.#aloneFromHere();
  }

  /** Lets small files begin again. */
  release(): void {
    this.#hold = undefined;
    this.#beginNext();
  }

  /** No request waits for a timer any more. */
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
    this.#refill();
    return this.#rate === undefined || this.#credit > 0;
  }

  #begin(kind: RequestClass, cost: number): void {
    this.#tallies[kind].running += 1;
    if (kind === 'smallFile' && this.#rate !== undefined) this.#credit -= cost;
  }

  /** Credit comes with time, and what is not used is soon lost. */
  #refill(): void {
    const nowMs = this.#options.now();
    const rate = this.#rate ?? 0;
    const most = rate * MAX_CREDIT_MS;
    this.#credit = Math.min(this.#credit + rate * (nowMs - this.#creditAtMs), most);
    this.#creditAtMs = nowMs;
  }

  /** Only a timer wakes requests that wait for credit. */
  #wakeLater(): void {
    if (this.#rate === undefined || this.#rate <= 0 || this.#timer || this.#hold) return;
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
    if (this.#waiting[kind].size >= this.#options.maxWaiting) {
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

/** What there has been of a class of requests: counts that only grow, and how many run. */

export interface Counts {
  readonly servedBytes: number;
  readonly servedRequests: number;
  /** What its requests took together, waiting for their turn and at the disk. */
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
  readonly #counts: { -readonly [Name in keyof Counts]: Counts[Name] } = { ...NOTHING };
  #atLastInterval: Counts = NOTHING;
  /** Requests that are at the disk. */
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

  /** Since the beginning. */
  totals(): Counts {
    return { ...this.#counts };
  }

  /** What there has been since the last call. */
  endInterval(): Counts {
    const before = this.#atLastInterval;
    const now = this.totals();
    this.#atLastInterval = now;
    return {
      servedBytes: now.servedBytes - before.servedBytes,
      servedRequests: now.servedRequests - before.servedRequests,
      waitedMs: now.waitedMs - before.waitedMs,
      ranMs: now.ranMs - before.ranMs,
      busyAnswers: now.busyAnswers - before.busyAnswers,
    };
  }
}

const NOTHING: Counts = {
  servedBytes: 0,
  servedRequests: 0,
  waitedMs: 0,
  ranMs: 0,
  busyAnswers: 0,
};

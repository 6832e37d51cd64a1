import type { Observation } from '@stevedore/balance';
import { Status } from '@stevedore/protocol';
import { StatusError } from '../errors.js';

/**
 * The order in which requests get to the disk: metadata first, small files behind it,
 * so many at a time, and few of them while metadata is there: what shares a disk and its
 * syncs with metadata slows it down, however it is ordered. Both queues are bounded in number and time; who finds one full, or
 * has waited too long, is told that the storage is busy, and comes back. Bytes and
 * requests that were served and that wait are counted per class and interval.
 *
 * A request costs its bytes and what an access costs beside them: a thousand reads of
 * a byte are no small load.
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
  /** What an access costs beside its bytes, in bytes. */
  readonly accessBytes: number;
  readonly now: () => number;
}

/** An interval of a class. */
export interface ClassInterval extends Observation {
  readonly servedRequests: number;
  readonly waitingRequests: number;
  /** Requests that were told to come back. */
  readonly busyAnswers: number;
}

interface Waiting {
  readonly cost: number;
  readonly sinceMs: number;
  readonly begin: () => void;
  readonly refuse: (error: Error) => void;
}

interface Counts {
  servedBytes: number;
  servedRequests: number;
  busyAnswers: number;
}

export class Scheduler {
  readonly #options: SchedulerOptions;
  readonly #waiting = { metadata: new Set<Waiting>(), smallFile: new Set<Waiting>() };
  #counts = { metadata: noCounts(), smallFile: noCounts() };
  readonly #running = { metadata: 0, smallFile: 0 };
  /** Small-file cost that may still begin in this interval; undefined: all of it. */
  #allowed: number | undefined;

  constructor(options: SchedulerOptions) {
    this.#options = options;
  }

  get running(): number {
    return this.#running.metadata + this.#running.smallFile;
  }

  cost(bytes: number): number {
    return bytes + this.#options.accessBytes;
  }

  /** Runs the action when it is its turn; status 11 if that does not come. */
  async run<Result>(
    kind: RequestClass,
    bytes: number,
    action: () => Promise<Result>,
  ): Promise<Result> {
    const cost = this.cost(bytes);
    if (this.#mayBegin(kind) && this.#waiting[kind].size === 0) this.#begin(kind, cost);
    else await this.#turn(kind, cost);
    try {
      return await action();
    } finally {
      this.#running[kind] -= 1;
      const counts = this.#counts[kind];
      counts.servedBytes += cost;
      counts.servedRequests += 1;
      this.#beginNext();
    }
  }

  /** Ends the interval: tells what it was, and refuses those who have waited too long. */
  endInterval(): Record<RequestClass, ClassInterval> {
    const oldest = this.#options.now() - this.#options.maxWaitMs;
    for (const kind of REQUEST_CLASSES) {
      for (const each of this.#waiting[kind]) {
        if (each.sinceMs > oldest) break;
        this.#waiting[kind].delete(each);
        this.#counts[kind].busyAnswers += 1;
        each.refuse(busy());
      }
    }
    const interval = (kind: RequestClass): ClassInterval => {
      let waitingBytes = 0;
      for (const { cost } of this.#waiting[kind]) waitingBytes += cost;
      return { ...this.#counts[kind], waitingBytes, waitingRequests: this.#waiting[kind].size };
    };
    const ended = { metadata: interval('metadata'), smallFile: interval('smallFile') };
    this.#counts = { metadata: noCounts(), smallFile: noCounts() };
    return ended;
  }

  /** What of the small-file load may begin until the next call; undefined: all of it. */
  allow(smallFileBytes: number | undefined): void {
    this.#allowed = smallFileBytes;
    this.#beginNext();
  }

  #mayBegin(kind: RequestClass): boolean {
    const { maxRunning, maxBesideMetadata } = this.#options;
    if (this.running >= maxRunning) return false;
    if (kind === 'metadata') return true;
    if (this.#running.metadata > 0 && this.#running.smallFile >= maxBesideMetadata) return false;
    return this.#waiting.metadata.size === 0 && (this.#allowed === undefined || this.#allowed > 0);
  }

  #begin(kind: RequestClass, cost: number): void {
    this.#running[kind] += 1;
    if (kind === 'smallFile' && this.#allowed !== undefined) this.#allowed -= cost;
  }

  #turn(kind: RequestClass, cost: number): Promise<void> {
    if (this.#waiting[kind].size >= this.#options.maxWaiting) {
      this.#counts[kind].busyAnswers += 1;
      return Promise.reject(busy());
    }
    return new Promise((resolve, reject) => {
      this.#waiting[kind].add({
        cost,
        sinceMs: this.#options.now(),
        begin: resolve,
        refuse: reject,
      });
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
  }
}

function noCounts(): Counts {
  return { servedBytes: 0, servedRequests: 0, busyAnswers: 0 };
}

function busy(): StatusError {
  return new StatusError(Status.tryAgain, 'too many requests wait');
}

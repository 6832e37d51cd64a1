import type { Counted } from '@stevedore/balance';
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

export interface ClassInterval extends Counted {
  readonly servedRequests: number;
  readonly waitingRequests: number;
  /** Requests that were answered with "try again". */
  readonly busyAnswers: number;
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

const NOTHING = { servedBytes: 0, servedRequests: 0, waitedMs: 0, ranMs: 0, busyAnswers: 0 };

/** The requests of a class. */
class Queue {
  readonly waiting = new Set<Waiting>();
  /** Requests at the disk. */
  running = 0;
  /** Since the interval began. */
  #counts = { ...NOTHING };

  ended(cost: number, waitedMs: number, ranMs: number): void {
    this.running -= 1;
    this.#counts.servedBytes += cost;
    this.#counts.servedRequests += 1;
    this.#counts.waitedMs += waitedMs;
    this.#counts.ranMs += ranMs;
  }

  refused(): void {
    this.#counts.busyAnswers += 1;
  }

  endInterval(): ClassInterval {
    const counts = this.#counts;
    this.#counts = { ...NOTHING };
    let waitingBytes = 0;
    for (const { cost } of this.waiting) waitingBytes += cost;
    return { ...counts, waitingBytes, waitingRequests: this.waiting.size };
  }
}

export class Scheduler {
  readonly #options: SchedulerOptions;
  readonly #queues = { metadata: new Queue(), smallFile: new Queue() };
  /** Small-file cost that may start per millisecond; undefined: no limit. */
  #rate: number | undefined;
  /** Credit available now. A request that costs more leaves a debt to those after it. */
  #credit = 0;
  #creditAtMs = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(options: SchedulerOptions) {
    this.#options = options;
  }

  get running(): number {
    return this.#queues.metadata.running + this.#queues.smallFile.running;
  }

  /** Runs the action in its turn. Status 11 if its turn does not come in time. */
  async run<Result>(
    kind: RequestClass,
    cost: number,
    action: () => Promise<Result>,
  ): Promise<Result> {
    const queue = this.#queues[kind];
    const cameAtMs = this.#options.now();
    this.#refill();
    if (this.#mayBegin(kind) && queue.waiting.size === 0) this.#begin(kind, cost);
    else await this.#turn(queue, cost);
    const begunAtMs = this.#options.now();
    try {
      return await action();
    } finally {
      queue.ended(cost, begunAtMs - cameAtMs, this.#options.now() - begunAtMs);
      this.#beginNext();
    }
  }

  /** Ends the interval: returns its totals, and refuses requests that have waited too long. */
  endInterval(): Record<RequestClass, ClassInterval> {
    const oldest = this.#options.now() - this.#options.maxWaitMs;
    for (const kind of REQUEST_CLASSES) {
      const queue = this.#queues[kind];
      for (const each of queue.waiting) {
        if (each.sinceMs > oldest) break;
        queue.waiting.delete(each);
        queue.refused();
        each.refuse(busy());
      }
    }
    const { metadata, smallFile } = this.#queues;
    return { metadata: metadata.endInterval(), smallFile: smallFile.endInterval() };
  }

  /** Small-file load that may start per millisecond; undefined: no limit. */
  allow(smallFileBytesPerMs: number | undefined): void {
    this.#refill();
    this.#rate = smallFileBytesPerMs;
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
    const { metadata, smallFile } = this.#queues;
    if (metadata.running > 0 && smallFile.running >= maxBesideMetadata) return false;
    return this.#rate === undefined || this.#credit > 0;
  }

  #begin(kind: RequestClass, cost: number): void {
    this.#queues[kind].running += 1;
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
    if (!this.#rate || this.#timer) return;
    if (this.#queues.smallFile.waiting.size === 0 || this.#credit > 0) return;
    const waitMs = Math.max(1, Math.ceil(-this.#credit / this.#rate));
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.#beginNext();
    }, waitMs);
    this.#timer.unref();
  }

  #turn(queue: Queue, cost: number): Promise<void> {
    if (queue.waiting.size >= MAX_WAITING) {
      queue.refused();
      return Promise.reject(busy());
    }
    return new Promise((resolve, reject) => {
      const sinceMs = this.#options.now();
      queue.waiting.add({ cost, sinceMs, begin: resolve, refuse: reject });
      this.#wakeLater();
    });
  }

  #beginNext(): void {
    this.#refill();
    for (const kind of REQUEST_CLASSES) {
      const { waiting } = this.#queues[kind];
      for (const each of waiting) {
        if (!this.#mayBegin(kind)) break;
        waiting.delete(each);
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

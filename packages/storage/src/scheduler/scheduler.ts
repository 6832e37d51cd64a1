import type { Observation } from '@stevedore/balance';
import { Status } from '@stevedore/protocol';
import { StatusError } from '../errors.js';

/**
 * The order in which requests get to the disk: metadata first, small files behind it,
 * so many at a time, and few of them while metadata is there: what shares a disk and its
 * syncs with metadata slows it down, however it is ordered. Small files have a rate as
 * well: clients that wait for their answer before they send the next request leave gaps
 * into which everything else would rush. Both queues are bounded in number and time; who
 * finds one full, or has waited too long, is told that the storage is busy, and comes
 * back. Bytes and requests that were served and that wait are counted per class and
 * interval.
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
  /** What its requests took together, waiting for their turn and at the disk. */
  readonly waitedMs: number;
  readonly ranMs: number;
  /** Requests that were told to come back. */
  readonly busyAnswers: number;
}

interface Waiting {
  readonly cost: number;
  readonly sinceMs: number;
  readonly begin: () => void;
  readonly refuse: (error: Error) => void;
}

/** A time in which metadata has the server to itself. */
interface Hold {
  /** Since when no small file is at the disk; undefined: one still is. */
  sinceMs: number | undefined;
  metadataCost: number;
}

/** Credit that was not used is kept for so long. */
const MAX_CREDIT_MS = 10;

interface Counts {
  waitedMs: number;
  ranMs: number;
  servedBytes: number;
  servedRequests: number;
  busyAnswers: number;
}

export class Scheduler {
  readonly #options: SchedulerOptions;
  readonly #waiting = { metadata: new Set<Waiting>(), smallFile: new Set<Waiting>() };
  #counts = { metadata: noCounts(), smallFile: noCounts() };
  readonly #running = { metadata: 0, smallFile: 0 };
  /** Cost of small files that may begin in a millisecond; undefined: any. */
  #rate: number | undefined;
  /** Of that, what may begin now; what a request costs more is taken from those after it. */
  #credit = 0;
  #creditAtMs = 0;
  #timer: NodeJS.Timeout | undefined;
  #hold: Hold | undefined;

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
    const cameAtMs = this.#options.now();
    if (this.#mayBegin(kind) && this.#waiting[kind].size === 0) this.#begin(kind, cost);
    else await this.#turn(kind, cost);
    const begunAtMs = this.#options.now();
    try {
      return await action();
    } finally {
      this.#running[kind] -= 1;
      const counts = this.#counts[kind];
      counts.waitedMs += begunAtMs - cameAtMs;
      counts.ranMs += this.#options.now() - begunAtMs;
      counts.servedBytes += cost;
      counts.servedRequests += 1;
      if (kind === 'smallFile') this.#aloneFromHere();
      else if (this.#hold?.sinceMs !== undefined) this.#hold.metadataCost += cost;
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

  /** The small-file load that may begin in a millisecond; undefined: all of it. */
  allow(smallFileBytesPerMs: number | undefined): void {
    this.#refill();
    this.#rate = smallFileBytesPerMs;
    this.#beginNext();
  }

  /** No small-file request begins until `release`. */
  hold(): void {
    this.#hold ??= { sinceMs: undefined, metadataCost: 0 };
    this.#aloneFromHere();
  }

  /**
   * Lets small files begin again. Gives the metadata cost that was served while no small
   * file was at the disk, and for how long that was; undefined if there was no such time.
   */
  release(): { readonly metadataBytes: number; readonly ms: number } | undefined {
    const hold = this.#hold;
    this.#hold = undefined;
    this.#beginNext();
    if (hold?.sinceMs === undefined) return undefined;
    const ms = this.#options.now() - hold.sinceMs;
    return ms > 0 ? { metadataBytes: hold.metadataCost, ms } : undefined;
  }

  /** Nobody waits for a timer any more. */
  close(): void {
    clearTimeout(this.#timer);
    this.#rate = undefined;
    this.#beginNext();
  }

  #mayBegin(kind: RequestClass): boolean {
    const { maxRunning, maxBesideMetadata } = this.#options;
    if (this.running >= maxRunning) return false;
    if (kind === 'metadata') return true;
    if (this.#hold || this.#waiting.metadata.size > 0) return false;
    if (this.#running.metadata > 0 && this.#running.smallFile >= maxBesideMetadata) return false;
    this.#refill();
    return this.#rate === undefined || this.#credit > 0;
  }

  #begin(kind: RequestClass, cost: number): void {
    this.#running[kind] += 1;
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

  /** Those who wait for credit alone have nobody else to wake them. */
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
    if (!this.#hold || this.#hold.sinceMs !== undefined || this.#running.smallFile > 0) return;
    this.#hold.sinceMs = this.#options.now();
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

function noCounts(): Counts {
  return { waitedMs: 0, ranMs: 0, servedBytes: 0, servedRequests: 0, busyAnswers: 0 };
}

function busy(): StatusError {
  return new StatusError(Status.tryAgain, 'too many requests wait');
}

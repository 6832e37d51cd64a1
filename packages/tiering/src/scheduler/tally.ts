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

export interface Served {
  readonly cost: number;
  readonly waitedMs: number;
  readonly ranMs: number;
}

export class Tally {
  #servedBytes = 0;
  #servedRequests = 0;
  #waitedMs = 0;
  #ranMs = 0;
  #busyAnswers = 0;
  #running = 0;
  #atLastInterval: Counts = this.#counts();

  /** Requests that are at the disk. */
  get running(): number {
    return this.#running;
  }

  began(): void {
    this.#running += 1;
  }

  ended({ cost, waitedMs, ranMs }: Served): void {
    this.#running -= 1;
    this.#servedBytes += cost;
    this.#servedRequests += 1;
    this.#waitedMs += waitedMs;
    this.#ranMs += ranMs;
  }

  refused(): void {
    this.#busyAnswers += 1;
  }

  /** Since the beginning. */
  totals(): Counts {
    return this.#counts();
  }

  /** What there has been since the last call. */
  endInterval(): Counts {
    const before = this.#atLastInterval;
    const now = this.#counts();
    this.#atLastInterval = now;
    return {
      servedBytes: now.servedBytes - before.servedBytes,
      servedRequests: now.servedRequests - before.servedRequests,
      waitedMs: now.waitedMs - before.waitedMs,
      ranMs: now.ranMs - before.ranMs,
      busyAnswers: now.busyAnswers - before.busyAnswers,
    };
  }

  #counts(): Counts {
    return {
      servedBytes: this.#servedBytes,
      servedRequests: this.#servedRequests,
      waitedMs: this.#waitedMs,
      ranMs: this.#ranMs,
      busyAnswers: this.#busyAnswers,
    };
  }
}

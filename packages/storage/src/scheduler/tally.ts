/** What there has been of a class of requests: counts that only grow, and how many run. */

export interface Counts {
  readonly servedBytes: number;
  readonly servedRequests: number;
  /** What its requests took together, waiting for their turn and at the disk. */
  readonly waitedMs: number;
  readonly ranMs: number;
  /** Requests that were told to come back. */
  readonly busyAnswers: number;
}

/** Since the beginning. */
export interface Totals extends Counts {
  /** Time in which at least one of them was at the disk. */
  readonly occupiedMs: number;
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
  #occupiedMs = 0;
  #running = 0;
  #occupiedSinceMs = 0;
  #atLastInterval: Counts = this.#counts();

  /** Requests that are at the disk. */
  get running(): number {
    return this.#running;
  }

  began(nowMs: number): void {
    if (this.#running === 0) this.#occupiedSinceMs = nowMs;
    this.#running += 1;
  }

  ended(nowMs: number, { cost, waitedMs, ranMs }: Served): void {
    this.#running -= 1;
    if (this.#running === 0) this.#occupiedMs += nowMs - this.#occupiedSinceMs;
    this.#servedBytes += cost;
    this.#servedRequests += 1;
    this.#waitedMs += waitedMs;
    this.#ranMs += ranMs;
  }

  refused(): void {
    this.#busyAnswers += 1;
  }

  totals(nowMs: number): Totals {
    const since = this.#running > 0 ? nowMs - this.#occupiedSinceMs : 0;
    return { ...this.#counts(), occupiedMs: this.#occupiedMs + since };
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

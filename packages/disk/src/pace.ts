/**
 * Decides whether short file system calls are made synchronously. A call that the system answers
 * from memory (its page cache, or whether a name exists) takes microseconds, and handing it to
 * another thread costs ten times that. A call that waits for a medium would block everything else.
 * The calls themselves show which it is: while their mean time is short they stay synchronous; once
 * it is long, other threads make them for a pause, which doubles each time.
 */

/** Copying a longer read takes longer than a change of threads. */
export const MAX_SHORT_BYTES = 128 * 1024;
/** A longer mean shows that calls wait for a medium. */
const LONG_MS = 0.1;
/** Upper bound for one call: a thread that waited for a processor is no slow disk. */
const MAX_COUNTED_MS = 0.3;
/** Weight of one call in the mean. */
const WEIGHT = 1 / 8;
const FIRST_PAUSE_MS = 500;
const MAX_PAUSE_MS = 30_000;
/** After more calls than this, the next pause is again the first. */
const MANY_CALLS = 1000;

export class Pace {
  #meanMs = 0;
  #callsSince = 0;
  #pauseMs = FIRST_PAUSE_MS;
  #pauseEnds = 0;

  /** `nowMs` is monotonic. */
  isShort(nowMs: number): boolean {
    return nowMs >= this.#pauseEnds;
  }

  /** Notes the time of a call that `isShort` allowed. */
  note(tookMs: number, nowMs: number): void {
    this.#meanMs += (Math.min(tookMs, MAX_COUNTED_MS) - this.#meanMs) * WEIGHT;
    this.#callsSince += 1;
    if (this.#meanMs <= LONG_MS) return;
    if (this.#callsSince > MANY_CALLS) this.#pauseMs = FIRST_PAUSE_MS;
    this.#pauseEnds = nowMs + this.#pauseMs;
    this.#pauseMs = Math.min(2 * this.#pauseMs, MAX_PAUSE_MS);
    this.#meanMs = 0;
    this.#callsSince = 0;
  }
}

/** Of one disk, for each kind of call. */
export class Paces {
  readonly looks = new Pace();
  readonly reads = new Pace();
  readonly changes = new Pace();
}

/** Makes a call synchronously, or in another thread while such calls are slow. */
export async function promptly<Result>(
  pace: Pace,
  atOnce: () => Result,
  later: () => Promise<Result>,
): Promise<Result> {
  const began = performance.now();
  if (!pace.isShort(began)) return later();
  try {
    return atOnce();
  } finally {
    const ended = performance.now();
    pace.note(ended - began, ended);
  }
}

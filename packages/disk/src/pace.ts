/**
 * Whether short calls of the file system are made in the thread that asks for them. What the
 * system answers from memory (bytes in its page cache, whether there is a name) takes it some
 * microseconds, and handing the call to another thread and back costs ten times that. What has
 * to come from a medium would hold up everything else meanwhile. The calls themselves tell which
 * it is: while their mean is short, they go on; once it is long, other threads make them for a
 * while, longer each time it happens again.
 */

/** Longer reads are copied for longer than a change of threads takes. */
export const MAX_SHORT_BYTES = 128 * 1024;
/** Mean of the last calls beyond which they wait for a medium. */
const LONG_MS = 0.1;
/** One call counts as no more: a thread that had to wait for a processor is no slow disk. */
const MAX_COUNTED_MS = 0.3;
/** Share of a call in the mean. */
const WEIGHT = 1 / 8;
const FIRST_PAUSE_MS = 500;
const MAX_PAUSE_MS = 30_000;
/** So many short calls in a row, and the next pause is the first again. */
const MANY_CALLS = 1000;

export class Pace {
  #meanMs = 0;
  #callsSince = 0;
  #pauseMs = FIRST_PAUSE_MS;
  #pauseEnds = 0;

  /** `nowMs` is of a clock that only runs forward. */
  isShort(nowMs: number): boolean {
    return nowMs >= this.#pauseEnds;
  }

  /** A call that `isShort` allowed took so long. */
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

/** Of all names: they lie on few disks, and mostly on one. */
const names = new Pace();

/** A look for a name: at once, or in another thread where that is slow. */
export async function look<Result>(
  atOnce: () => Result,
  later: () => Promise<Result>,
): Promise<Result> {
  const began = performance.now();
  if (!names.isShort(began)) return later();
  try {
    return atOnce();
  } finally {
    const ended = performance.now();
    names.note(ended - began, ended);
  }
}

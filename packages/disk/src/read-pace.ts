/**
 * Whether short reads are made in the thread that asks for them. What the system has in its page
 * cache comes in some microseconds, and handing the read to another thread and back costs ten
 * times that. What has to come from a medium would hold up everything else meanwhile. Reads
 * themselves tell which it is: while their mean is short, they go on; once it is long, other
 * threads read for a while, longer each time it happens again.
 */

/** Longer ones are copied for longer than a change of threads takes. */
export const MAX_SHORT_BYTES = 128 * 1024;
/** Mean of the last reads beyond which they come from a medium. */
const LONG_MS = 0.1;
/** One read counts as no more: a thread that had to wait for a processor is no slow disk. */
const MAX_COUNTED_MS = 0.3;
/** Share of a read in the mean. */
const WEIGHT = 1 / 8;
const FIRST_PAUSE_MS = 500;
const MAX_PAUSE_MS = 30_000;
/** So many short reads in a row, and the next pause is the first again. */
const MANY_READS = 1000;

export class ReadPace {
  #meanMs = 0;
  #readsSince = 0;
  #pauseMs = FIRST_PAUSE_MS;
  #pauseEnds = 0;

  /** `nowMs` is of a clock that only runs forward. */
  isShort(nowMs: number): boolean {
    return nowMs >= this.#pauseEnds;
  }

  /** A read that `isShort` allowed took so long. */
  note(tookMs: number, nowMs: number): void {
    this.#meanMs += (Math.min(tookMs, MAX_COUNTED_MS) - this.#meanMs) * WEIGHT;
    this.#readsSince += 1;
    if (this.#meanMs <= LONG_MS) return;
    if (this.#readsSince > MANY_READS) this.#pauseMs = FIRST_PAUSE_MS;
    this.#pauseEnds = nowMs + this.#pauseMs;
    this.#pauseMs = Math.min(2 * this.#pauseMs, MAX_PAUSE_MS);
    this.#meanMs = 0;
    this.#readsSince = 0;
  }
}

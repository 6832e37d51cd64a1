/**
 * Stripes of a file that were asked for before somebody reads them: whoever reads a file
 * from its beginning, or goes on where a read has ended, will want the next ones, and
 * they are at other servers. At most `MAX_KEPT` are held, each for one reader and for a
 * moment: what a reader that went away has left does not stay in memory.
 */

const STRIPES_AHEAD = 2;
const MAX_KEPT = 4;
/** Readers whose next place is remembered. */
const MAX_ENDS = 8;
const KEPT_MS = 1000;

export class ReadAhead {
  readonly #read: (stripe: number) => Promise<Buffer>;
  readonly #stripes: number;
  readonly #kept = new Map<number, Promise<Buffer>>();
  readonly #ends = new Set<number>();
  #timer: NodeJS.Timeout | undefined;

  /** `read` gives a whole stripe of the `stripes` that there are. */
  constructor(stripes: number, read: (stripe: number) => Promise<Buffer>) {
    this.#stripes = stripes;
    this.#read = read;
  }

  /** True if a read at this place is likely to be followed by others; it ends at `end`. */
  follows(position: number, end: number): boolean {
    const isNext = this.#ends.delete(position) || position === 0;
    this.#ends.add(end);
    const [oldest] = this.#ends;
    if (this.#ends.size > MAX_ENDS && oldest !== undefined) this.#ends.delete(oldest);
    return isNext;
  }

  /** Asks for the stripes behind this one. */
  begin(last: number): void {
    const end = Math.min(last + 1 + STRIPES_AHEAD, this.#stripes);
    for (let stripe = last + 1; stripe < end; stripe += 1) {
      if (this.#kept.has(stripe)) continue;
      const [oldest] = this.#kept.keys();
      if (this.#kept.size >= MAX_KEPT && oldest !== undefined) this.#kept.delete(oldest);
      const reading = this.#read(stripe);
      // Whoever reads it asks again, and is told why.
      reading.catch(() => {});
      this.#kept.set(stripe, reading);
    }
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.clear(), KEPT_MS);
    this.#timer.unref();
  }

  /** The stripe, if it was asked for; undefined too if that has failed. */
  async take(stripe: number): Promise<Buffer | undefined> {
    const reading = this.#kept.get(stripe);
    if (!reading) return undefined;
    this.#kept.delete(stripe);
    return reading.catch(() => undefined);
  }

  clear(): void {
    clearTimeout(this.#timer);
    this.#kept.clear();
  }
}

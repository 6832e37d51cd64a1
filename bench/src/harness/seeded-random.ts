/** A seeded generator (mulberry32): the same seed gives the same sequence everywhere. */
export class SeededRandom {
  #state: number;

  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  /** 0 to below 1; may be passed on by itself. */
  readonly next = (): number => {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };

  /** A whole number from 0 to below `limit`. */
  below(limit: number): number {
    return Math.floor(this.next() * limit);
  }

  /** Exponentially distributed. */
  exponential(mean: number): number {
    return -mean * Math.log(1 - this.next());
  }

  /** The same items in another order. */
  shuffled<T>(items: Iterable<T>): T[] {
    const order = [...items];
    for (let at = order.length - 1; at > 0; at -= 1) {
      const other = this.below(at + 1);
      [order[at], order[other]] = [order[other]!, order[at]!];
    }
    return order;
  }
}

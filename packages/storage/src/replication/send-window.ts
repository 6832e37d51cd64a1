import type { Position } from './binlog.js';

/**
 * Records of the log that are on their way to one member, in the order of the log. All
 * before the first that is not done have been acknowledged.
 */

interface Flight {
  readonly end: Position;
  readonly key: string | undefined;
  done: boolean;
  settled: Promise<void>;
}

export class SendWindow {
  readonly #max: number;
  readonly #all: Flight[] = [];

  constructor(max: number) {
    this.#max = max;
  }

  get isEmpty(): boolean {
    return this.#all.length === 0;
  }

  get areUnderWay(): boolean {
    return this.#all.some(({ done }) => !done);
  }

  /** True once the one that ends there is done. */
  has(position: Position): boolean {
    return this.#all.some(({ end, done }) => done && end === position);
  }

  /** True if a change of this file must wait; one without a key waits for all, and all for it. */
  blocks(key: string | undefined): boolean {
    const under = this.#all.filter(({ done }) => !done);
    if (under.length >= this.#max) return true;
    return under.some((each) => key === undefined || each.key === undefined || each.key === key);
  }

  /** A record with which nothing is to be done. */
  pass(end: Position): void {
    this.#all.push({ end, key: undefined, done: true, settled: Promise.resolve() });
  }

  /** `fly` calls what it is given when the member has it; the promise must not reject. */
  add(end: Position, key: string | undefined, fly: (done: () => void) => Promise<void>): void {
    const flight: Flight = { end, key, done: false, settled: Promise.resolve() };
    this.#all.push(flight);
    flight.settled = fly(() => {
      flight.done = true;
    });
  }

  /** Lets go of what is done from the beginning; where that ends, or 0. */
  settle(): Position {
    let end: Position = 0;
    let count = 0;
    while (this.#all[count]?.done) end = this.#all[count++]!.end;
    this.#all.splice(0, count);
    return end;
  }

  /** Resolves when all have come to an end, be it a failure. */
  async settled(): Promise<void> {
    await Promise.all(this.#all.map(({ settled }) => settled));
  }
}

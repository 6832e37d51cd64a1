/** A queue of events in simulated time: a binary heap; events of one time in the order they came. */
export class EventQueue<T> {
  readonly #times: number[] = [];
  readonly #orders: number[] = [];
  readonly #events: T[] = [];
  #order = 0;

  get length(): number {
    return this.#times.length;
  }

  /** When the next event is due; undefined if there is none. */
  get nextAtMs(): number | undefined {
    return this.#times[0];
  }

  push(atMs: number, event: T): void {
    let index = this.#times.length;
    const order = this.#order;
    this.#order += 1;
    this.#times.push(atMs);
    this.#orders.push(order);
    this.#events.push(event);
    while (index > 0) {
      const parent = (index - 1) >> 1;
      if (!this.#before(atMs, order, parent)) break;
      this.#copy(parent, index);
      index = parent;
    }
    this.#set(index, atMs, order, event);
  }

  pop(): { atMs: number; event: T } | undefined {
    const atMs = this.#times[0];
    if (atMs === undefined) return undefined;
    const event = this.#events[0]!;
    const lastTime = this.#times.pop()!;
    const lastOrder = this.#orders.pop()!;
    const lastEvent = this.#events.pop()!;
    if (this.#times.length > 0) this.#sink(lastTime, lastOrder, lastEvent);
    return { atMs, event };
  }

  #sink(atMs: number, order: number, event: T): void {
    const length = this.#times.length;
    let index = 0;
    for (;;) {
      let child = 2 * index + 1;
      if (child >= length) break;
      const right = child + 1;
      if (right < length && this.#before(this.#times[right]!, this.#orders[right]!, child)) {
        child = right;
      }
      if (this.#before(atMs, order, child)) break;
      this.#copy(child, index);
      index = child;
    }
    this.#set(index, atMs, order, event);
  }

  #before(atMs: number, order: number, index: number): boolean {
    const other = this.#times[index]!;
    return atMs < other || (atMs === other && order < this.#orders[index]!);
  }

  #copy(from: number, to: number): void {
    this.#set(to, this.#times[from]!, this.#orders[from]!, this.#events[from]!);
  }

  #set(index: number, atMs: number, order: number, event: T): void {
    this.#times[index] = atMs;
    this.#orders[index] = order;
    this.#events[index] = event;
  }
}

/**
 * The connections that all pools of a client may have together. A pool that finds
 * none left takes over one that lies idle elsewhere, or waits its turn: whoever
 * gives up a connection passes the room to the pool whose call waits longest.
 */

export interface Sharer {
  /** When the first call began to wait here for lack of room, as a running number. */
  readonly waitingSince: number | undefined;
  /** When the longest unused connection was last used. */
  readonly idleSinceMs: number | undefined;
  /** Closes the longest unused connection. */
  closeIdle(): void;
  /** Opens a connection for the first call that waits. */
  useRoom(): void;
}

export class Budget {
  readonly #max: number;
  readonly #sharers: () => Iterable<Sharer>;
  readonly #starved = new Set<Sharer>();
  #open = 0;
  #turn = 0;

  constructor(max: number, sharers: () => Iterable<Sharer>) {
    this.#max = max;
    this.#sharers = sharers;
  }

  get full(): boolean {
    return this.#open >= this.#max;
  }

  /** A number that grows with each call that begins to wait. */
  nextTurn(): number {
    return ++this.#turn;
  }

  /** Makes room at the cost of a connection that is not in use; false when there is none. */
  makeRoom(): boolean {
    let oldest: Sharer | undefined;
    for (const sharer of this.#sharers()) {
      const since = sharer.idleSinceMs;
      if (since === undefined) continue;
      if (oldest?.idleSinceMs === undefined || since < oldest.idleSinceMs) oldest = sharer;
    }
    oldest?.closeIdle();
    return !this.full;
  }

  opened(): void {
    this.#open++;
  }

  /** A connection is gone; its room goes to whoever waits longest. */
  closed(): void {
    this.#open--;
    if (!this.full) this.#longestWaiting()?.useRoom();
  }

  /** Remembers that a call waits at this pool although the pool itself is not full. */
  starve(sharer: Sharer): void {
    this.#starved.add(sharer);
  }

  /** True when a call of another pool waits for longer than `turn`, or than nobody here. */
  owesRoom(sharer: Sharer, turn: number | undefined): boolean {
    if (this.#starved.size === 0) return false;
    const first = this.#longestWaiting();
    if (!first || first === sharer) return false;
    return turn === undefined || first.waitingSince! < turn;
  }

  #longestWaiting(): Sharer | undefined {
    let longest: Sharer | undefined;
    for (const sharer of this.#starved) {
      const since = sharer.waitingSince;
      if (since === undefined) this.#starved.delete(sharer);
      else if (!longest || since < longest.waitingSince!) longest = sharer;
    }
    return longest;
  }
}

import { Status } from '@stevedore/protocol';
import { StatusError } from '../errors.js';

/**
 * How this storage stands in its group: who goes on without it, and whose changes it
 * does not take. A member that is **out** for another one lacks changes which that one
 * has answered: it makes no changes, takes those of its leaders only, and gives up what
 * it has made alone. Whatever is being made can be held up, so that the members agree on
 * what there is before and after.
 */

export class Standing {
  /** Those who answer changes without this storage, and when they said so. */
  readonly #leaders = new Map<string, number>();
  /** Those who did and wait for this storage again, while others do not yet. */
  readonly #returned = new Set<string>();
  /** Members of whom nothing is taken, because changes are answered here without them. */
  readonly #fenced = new Set<string>();
  readonly #listeners = new Set<() => void>();
  readonly #waiting = new Set<() => void>();
  #turn = 0;
  #returns = 0;
  #making = 0;
  #pauses = 0;
  /** True once the trackers have told who is out. */
  isSettled = false;

  /** Rises whenever somebody goes on without this storage. */
  get turn(): number {
    return this.#turn;
  }

  /**
   * `id` is said to answer changes without this storage, by an answer that was asked for
   * when `returns` was so many: what has been said since counts more.
   */
  heard(id: string, returns: number): void {
    if (returns === this.#returns && !this.#leaders.has(id)) this.ledBy(id);
  }

  /** How often somebody has begun to wait for this storage again. */
  get returns(): number {
    return this.#returns;
  }

  get isOut(): boolean {
    return this.#leaders.size > 0;
  }

  /** Those who answer changes without this storage. */
  get leaders(): readonly string[] {
    return [...this.#leaders.keys()];
  }

  isLedBy(id: string): boolean {
    return this.#leaders.has(id);
  }

  /** When that member last said that it goes on without this storage. */
  turnOf(id: string): number {
    return this.#leaders.get(id) ?? 0;
  }

  /** `id` answers changes without this storage. */
  ledBy(id: string): void {
    this.#turn += 1;
    this.#leaders.set(id, this.#turn);
    this.#returned.delete(id);
    this.#tell();
  }

  /** `id` waits for this storage again, or is no member any more. */
  levelWith(id: string): void {
    this.#returns += 1;
    if (!this.#leaders.delete(id)) return;
    this.#returned.add(id);
    if (!this.isOut) this.#returned.clear();
    this.#tell();
  }

  fence(id: string, isFenced: boolean): void {
    if (isFenced) this.#fenced.add(id);
    else this.#fenced.delete(id);
  }

  /** Whether a change that this member made is taken now. */
  takesFrom(id: string): boolean {
    if (this.#leaders.has(id)) return true;
    if (!this.isSettled || this.#fenced.has(id)) return false;
    return !this.isOut || this.#returned.has(id);
  }

  settle(leaders: Iterable<string>): void {
    this.isSettled = true;
    for (const id of leaders) this.ledBy(id);
    this.#tell();
  }

  /** Makes a change; status 11 if it is not allowed any more when its time has come. */
  async make<Result>(isAllowed: () => boolean, make: () => Promise<Result>): Promise<Result> {
    while (this.#pauses > 0) await this.#news();
    if (!isAllowed()) throw new StatusError(Status.tryAgain, 'another member is to change this');
    this.#making += 1;
    try {
      return await make();
    } finally {
      this.#making -= 1;
      this.#wake();
    }
  }

  /** Resolves when no change is being made; none begins before what it gives is called. */
  async pause(): Promise<() => void> {
    this.#pauses += 1;
    while (this.#making > 0) await this.#news();
    let isOver = false;
    return () => {
      if (isOver) return;
      isOver = true;
      this.#pauses -= 1;
      this.#wake();
    };
  }

  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  #news(): Promise<void> {
    return new Promise((resolve) => this.#waiting.add(resolve));
  }

  #wake(): void {
    const waiting = [...this.#waiting];
    this.#waiting.clear();
    for (const resolve of waiting) resolve();
  }

  #tell(): void {
    for (const listener of [...this.#listeners]) listener();
  }
}

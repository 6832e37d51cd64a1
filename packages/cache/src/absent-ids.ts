/**
 * Ids that were looked for and not found, for a short time and in a bounded number:
 * a page that names a missing file does not ask the disk for it at every view.
 */
export interface AbsentIdsOptions {
  readonly maxIds: number;
  readonly keptMs: number;
  /** Milliseconds of a clock that only runs forward. */
  readonly now: () => number;
}

export class AbsentIds {
  readonly #options: AbsentIdsOptions;
  /** Until when each is believed to be absent; oldest first. */
  readonly #untilMs = new Map<string, number>();

  constructor(options: AbsentIdsOptions) {
    this.#options = options;
  }

  get size(): number {
    return this.#untilMs.size;
  }

  has(id: string): boolean {
    const untilMs = this.#untilMs.get(id);
    if (untilMs === undefined) return false;
    if (this.#options.now() < untilMs) return true;
    this.#untilMs.delete(id);
    return false;
  }

  add(id: string): void {
    const { maxIds, keptMs, now } = this.#options;
    if (maxIds === 0 || keptMs === 0) return;
    this.#untilMs.delete(id);
    this.#untilMs.set(id, now() + keptMs);
    if (this.#untilMs.size <= maxIds) return;
    for (const oldest of this.#untilMs.keys()) {
      this.#untilMs.delete(oldest);
      return;
    }
  }

  /** There is such a file now, or may be. */
  delete(id: string): void {
    this.#untilMs.delete(id);
  }
}

/** What the disk was asked and has not answered yet. */
export class Unanswered {
  /** The oldest first. */
  readonly #asked = new Set<{ readonly atMs: number }>();

  /** How long the oldest has waited; 0 if none does. */
  get oldestMs(): number {
    const [oldest] = this.#asked;
    return oldest === undefined ? 0 : performance.now() - oldest.atMs;
  }

  add<Result>(work: Promise<Result>): Promise<Result> {
    const asked = { atMs: performance.now() };
    const answered = (): void => void this.#asked.delete(asked);
    this.#asked.add(asked);
    work.then(answered, answered);
    return work;
  }
}

/** Runs actions of the same key one after the other; those of different keys do not wait. */
export class KeyedLock {
  readonly #last = new Map<string, Promise<void>>();

  async run<Result>(key: string, action: () => Promise<Result>): Promise<Result> {
    const before = this.#last.get(key);
    const result = (before ?? Promise.resolve()).then(action);
    const done = result.then(
      () => {},
      () => {},
    );
    this.#last.set(key, done);
    try {
      return await result;
    } finally {
      if (this.#last.get(key) === done) this.#last.delete(key);
    }
  }
}

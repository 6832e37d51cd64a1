/** Pieces of work that wait for each other. */

/** Runs one piece of work after the other. */
export type Serial = <T>(work: () => Promise<T>) => Promise<T>;

/** One that fails is its caller's concern, not the next one's. */
export function serial(): Serial {
  let last: Promise<unknown> = Promise.resolve();
  return (work) => {
    const done = last.then(work);
    last = done.catch(() => undefined);
    return done;
  };
}

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

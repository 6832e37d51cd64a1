import type { StorePaths } from './store-paths.js';

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

/**
 * Those who work on one file take turns, and each finds it settled. Where the disk
 * still fails, its error is theirs.
 */
export class FileLocks {
  readonly #turns = new KeyedLock();
  readonly #storePaths: StorePaths;

  constructor(storePaths: StorePaths) {
    this.#storePaths = storePaths;
  }

  run<Result>(path: string, action: () => Promise<Result>): Promise<Result> {
    return this.#turns.run(path, async () => {
      await this.#storePaths.journalOf(path).settle(path);
      return action();
    });
  }
}

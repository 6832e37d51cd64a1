/** Those who wait for the next news, each for so long at most. */
export class Listeners {
  readonly #waiting = new Set<(isNews: boolean) => void>();

  wake(): void {
    for (const done of [...this.#waiting]) done(true);
  }

  /** True once there is news, false after so long without. */
  next(withinMs: number): Promise<boolean> {
    return new Promise((resolve) => {
      const done = (isNews: boolean): void => {
        clearTimeout(timer);
        this.#waiting.delete(done);
        resolve(isNews);
      };
      const timer = setTimeout(() => done(false), Math.max(withinMs, 1));
      this.#waiting.add(done);
    });
  }
}

/** As Listeners, for one who is not to miss what happened while it did not wait. */
export class News {
  readonly #listeners = new Listeners();
  #isThere = false;

  wake(): void {
    this.#isThere = true;
    this.#listeners.wake();
  }

  async next(withinMs: number): Promise<boolean> {
    const isNews = this.#isThere || (await this.#listeners.next(withinMs));
    this.#isThere = false;
    return isNews;
  }
}

/** Wakes one that waits, be it that something happened while it did not. */
export class News {
  #isThere = false;
  #resume: (() => void) | undefined;

  wake(): void {
    this.#isThere = true;
    this.#resume?.();
  }

  /** Resolves when something has happened since it last did, or after so long. */
  async next(withinMs: number): Promise<void> {
    if (!this.#isThere) {
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, withinMs);
        this.#resume = () => {
          clearTimeout(timer);
          resolve();
        };
      });
      this.#resume = undefined;
    }
    this.#isThere = false;
  }
}

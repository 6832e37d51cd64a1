/**
 * Background work and its errors. Errors from before a listener can be attached are reported once
 * one can be; after the store begins to close, none is reported.
 */
export class Background {
  readonly #tell: (error: Error) => void;
  readonly #timers: NodeJS.Timeout[] = [];
  /** Errors from before a listener could be attached. */
  #early: Error[] | undefined = [];
  #isOver = false;

  constructor(tell: (error: Error) => void) {
    this.#tell = tell;
  }

  get isOver(): boolean {
    return this.#isOver;
  }

  report(error: Error): void {
    if (this.#early) this.#early.push(error);
    else this.#tell(error);
  }

  /** Late enough for the caller to have begun to listen. */
  tellSoon(): void {
    setImmediate(() => {
      const early = this.#early ?? [];
      this.#early = undefined;
      for (const error of early) this.report(error);
    });
  }

  run(work: Promise<unknown>): void {
    work.catch((error) => {
      if (!this.#isOver) this.report(error as Error);
    });
  }

  /** Repeats the work until all is closed; one run at a time. */
  every(ms: number, work: () => Promise<unknown>): void {
    let running = false;
    const timer = setInterval(() => {
      if (running) return;
      running = true;
      this.run(
        work().finally(() => {
          running = false;
        }),
      );
    }, ms);
    timer.unref();
    this.#timers.push(timer);
  }

  end(): void {
    this.#isOver = true;
    for (const timer of this.#timers) clearInterval(timer);
  }
}

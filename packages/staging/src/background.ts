/**
 * Work in the background, and its failures: each is reported, those from before
 * anybody could listen once somebody can, and none any more once all is being closed.
 */
export class Background {
  readonly #tell: (error: Error) => void;
  readonly #timers: NodeJS.Timeout[] = [];
  /** What there was to report before anybody could listen. */
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

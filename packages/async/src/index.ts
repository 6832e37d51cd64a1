/** Turns and waits of asynchronous work. */

export { howUsed, WAS_READ } from './used-streams.js';

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

/** Waits for the next wake-up, each with a time limit. A wait keeps no process alive. */
export class Listeners {
  readonly #waiting = new Set<(isWoken: boolean) => void>();

  wake(): void {
    for (const done of [...this.#waiting]) done(true);
  }

  /** True when woken, false after the time limit. */
  next(withinMs: number): Promise<boolean> {
    return new Promise((resolve) => {
      const done = (isWoken: boolean): void => {
        clearTimeout(timer);
        this.#waiting.delete(done);
        resolve(isWoken);
      };
      const timer = setTimeout(() => done(false), Math.max(withinMs, 1)).unref();
      this.#waiting.add(done);
    });
  }
}

/** As Listeners, for one waiter: a wake-up while it does not wait ends its next wait at once. */
export class Wakeup {
  readonly #listeners = new Listeners();
  #isPending = false;

  wake(): void {
    this.#isPending = true;
    this.#listeners.wake();
  }

  async next(withinMs: number): Promise<boolean> {
    const isWoken = this.#isPending || (await this.#listeners.next(withinMs));
    this.#isPending = false;
    return isWoken;
  }
}

/** The promise, or the reason of the signal if that comes first. */
export function abortable<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = (): void => reject(signal.reason);
    if (signal.aborted) onAbort();
    else signal.addEventListener('abort', onAbort, { once: true });
    // Whatever becomes of it later is handled too.
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort));
  });
}

/** A promise that is settled from outside. */
export interface Deferred<Value> {
  readonly promise: Promise<Value>;
  resolve(value: Value): void;
  reject(error: Error): void;
}

export function deferred<Value>(): Deferred<Value> {
  let resolve: (value: Value) => void = () => {};
  let reject: (error: Error) => void = () => {};
  const promise = new Promise<Value>((onResolve, onReject) => {
    resolve = onResolve;
    reject = onReject;
  });
  return { promise, resolve, reject };
}

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

/** A pause that doubles, from the first to the last, until it is reset. */
export class GrowingPause {
  readonly #firstMs: number;
  readonly #lastMs: number;
  #ms: number;

  constructor({ firstMs, lastMs }: { readonly firstMs: number; readonly lastMs: number }) {
    this.#firstMs = firstMs;
    this.#lastMs = lastMs;
    this.#ms = firstMs;
  }

  /** The pause before the next attempt. */
  next(): number {
    const ms = this.#ms;
    this.#ms = Math.min(2 * ms, this.#lastMs);
    return ms;
  }

  reset(): void {
    this.#ms = this.#firstMs;
  }
}

export interface GatheredOptions {
  readonly maxKeys: number;
  /** Further keys wait until a call has ended. */
  readonly maxCalls: number;
}

interface Asked<Key, Value> {
  readonly key: Key;
  readonly answer: Deferred<Value>;
}

/**
 * Asks for many keys in one call: those of one turn of the event loop, and those that had to wait.
 * What waits while a call fails, fails with it: it would ask the same server.
 */
export class Gathered<Key, Value> {
  readonly #call: (keys: readonly Key[]) => Promise<readonly Value[]>;
  readonly #options: GatheredOptions;
  readonly #waiting: Asked<Key, Value>[] = [];
  #calls = 0;
  #isDue = false;

  /** `call` resolves with a value for each key, in their order. */
  constructor(call: (keys: readonly Key[]) => Promise<readonly Value[]>, options: GatheredOptions) {
    this.#call = call;
    this.#options = options;
  }

  ask(key: Key): Promise<Value> {
    const answer = deferred<Value>();
    this.#waiting.push({ key, answer });
    this.#plan();
    return answer.promise;
  }

  #plan(): void {
    const { maxCalls } = this.#options;
    if (this.#isDue || this.#waiting.length === 0 || this.#calls >= maxCalls) return;
    this.#isDue = true;
    setImmediate(() => {
      this.#isDue = false;
      const asked = this.#waiting.splice(0, this.#options.maxKeys);
      if (asked.length === 0) return;
      this.#calls += 1;
      void this.#ask(asked);
      this.#plan();
    });
  }

  async #ask(asked: readonly Asked<Key, Value>[]): Promise<void> {
    try {
      const values = await this.#call(asked.map(({ key }) => key));
      for (const [index, { answer }] of asked.entries()) answer.resolve(values[index] as Value);
    } catch (error) {
      const failed = [...asked, ...this.#waiting.splice(0)];
      for (const { answer } of failed) answer.reject(error as Error);
    }
    this.#calls -= 1;
    this.#plan();
  }
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

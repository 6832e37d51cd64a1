import { StoreError } from '@stevedore/staging';

/**
 * Callers that wait for a file's FastDFS id. While there are any, the process stays alive and polls
 * their files, so that no caller depends on an event alone.
 */
export class FileIdWaiters {
  readonly #waiting = new Map<string, Set<Waiter>>();
  readonly #look: (key: string) => string | undefined;
  #timer: NodeJS.Timeout | undefined;

  /** `look` returns the id once there is one, and throws if the file is gone. */
  constructor(look: (key: string) => string | undefined) {
    this.#look = look;
  }

  wait(key: string, signal: AbortSignal | undefined): Promise<string> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(aborted(signal));
      const waiter: Waiter = { resolve, reject, stop: () => undefined };
      if (signal) {
        const onAbort = () => {
          this.#remove(key, waiter);
          reject(aborted(signal));
        };
        signal.addEventListener('abort', onAbort, { once: true });
        waiter.stop = () => signal.removeEventListener('abort', onAbort);
      }
      const waiters = this.#waiting.get(key) ?? new Set();
      this.#waiting.set(key, waiters.add(waiter));
      this.#timer ??= setInterval(() => this.lookAgain(), LOOK_MS);
    });
  }

  lookAgain(): void {
    for (const key of [...this.#waiting.keys()]) this.lookAt(key);
  }

  lookAt(key: string): void {
    const waiters = this.#waiting.get(key);
    if (!waiters) return;
    try {
      const fileId = this.#look(key);
      if (fileId === undefined) return;
      for (const waiter of waiters) waiter.resolve(fileId);
    } catch (error) {
      for (const waiter of waiters) waiter.reject(error);
    }
    for (const waiter of [...waiters]) this.#remove(key, waiter);
  }

  close(): void {
    const error = new StoreError('closed', 'the store was closed before the file was merged');
    for (const [key, waiters] of [...this.#waiting]) {
      for (const waiter of [...waiters]) {
        waiter.reject(error);
        this.#remove(key, waiter);
      }
    }
  }

  #remove(key: string, waiter: Waiter): void {
    waiter.stop();
    const waiters = this.#waiting.get(key);
    waiters?.delete(waiter);
    if (waiters?.size === 0) this.#waiting.delete(key);
    if (this.#waiting.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }
}

const LOOK_MS = 1_000;

interface Waiter {
  readonly resolve: (fileId: string) => void;
  readonly reject: (error: unknown) => void;
  stop: () => void;
}

function aborted(signal: AbortSignal): StoreError {
  return new StoreError('aborted', 'waiting was aborted', { cause: signal.reason });
}

import { setTimeout as sleep } from 'node:timers/promises';
import { abortable, type Deferred, deferred, GrowingPause } from '@stevedore/async';
import { StoreError } from '@stevedore/staging/errors';
import type { StoredFile } from './types.js';

const LOOK_MS = 1_000;
/** Between two questions to another server. */
const LOOKS = { firstMs: 100, lastMs: 2_000 };

/** Those that wait for the id of one file. */
interface Waiting extends Deferred<string> {
  callers: number;
}

/**
 * Callers that wait for a file's FastDFS id. While there are any, the process stays alive and polls
 * their files, so that no caller depends on an event alone.
 */
export class FileIdWaiters {
  readonly #waiting = new Map<string, Waiting>();
  readonly #look: (key: string) => string | undefined;
  #timer: NodeJS.Timeout | undefined;

  /** `look` returns the id once there is one, and throws if the file is gone. */
  constructor(look: (key: string) => string | undefined) {
    this.#look = look;
  }

  async wait(key: string, signal: AbortSignal | undefined): Promise<string> {
    const waiting = this.#waiting.get(key) ?? { ...deferred<string>(), callers: 0 };
    this.#waiting.set(key, waiting);
    waiting.callers += 1;
    this.#timer ??= setInterval(() => this.lookAgain(), LOOK_MS);
    try {
      return await (signal ? abortable(waiting.promise, signal) : waiting.promise);
    } catch (error) {
      if (!signal?.aborted) throw error;
      throw waitAborted(signal);
    } finally {
      waiting.callers -= 1;
      if (waiting.callers === 0 && this.#waiting.get(key) === waiting) this.#forget(key);
    }
  }

  lookAgain(): void {
    for (const key of [...this.#waiting.keys()]) this.lookAt(key);
  }

  lookAt(key: string): void {
    const waiting = this.#waiting.get(key);
    if (!waiting) return;
    try {
      const fileId = this.#look(key);
      if (fileId === undefined) return;
      waiting.resolve(fileId);
    } catch (error) {
      waiting.reject(error as Error);
    }
    this.#forget(key);
  }

  close(): void {
    const error = new StoreError('closed', 'the store was closed before the file was merged');
    for (const [key, { reject }] of [...this.#waiting]) {
      reject(error);
      this.#forget(key);
    }
  }

  #forget(key: string): void {
    this.#waiting.delete(key);
    if (this.#waiting.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }
}

/** Asks for a file of another server until it has its id; rejects with `not_found` if it never will. */
export async function askForId(
  key: string,
  stat: () => Promise<Pick<StoredFile, 'fileId' | 'state'>>,
  signal: AbortSignal | undefined,
  ends = signal,
): Promise<string> {
  const pause = new GrowingPause(LOOKS);
  for (;;) {
    const { fileId, state } = await stat();
    if (fileId !== undefined) return fileId;
    if (state === 'merged') {
      const message = `${key} is merged, but no FastDFS id can be made for it; read it by its key`;
      throw new StoreError('not_found', message);
    }
    await sleep(pause.next(), undefined, { signal: ends }).catch(() => undefined);
    if (signal?.aborted) throw waitAborted(signal);
  }
}

function waitAborted({ reason }: AbortSignal): StoreError {
  return new StoreError('aborted', 'waiting was aborted', { cause: reason });
}

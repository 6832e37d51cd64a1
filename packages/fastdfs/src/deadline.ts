import { downloadFile, parseFileId, Status, statusText } from '@stevedore/protocol';
import { type Call, MAX_TIMER_MS } from '@stevedore/wire';
import {
  codeOfStatus,
  FastdfsError,
  type FastdfsErrorCode,
  type FastdfsErrorDetails,
  Redirect,
} from './errors.js';

/**
 * One call from start to end. A Deadline ends a call at most once, by its timer or by the caller's
 * signal, and notifies the stage that is waiting. Its timer keeps the process alive, so that an
 * exit cuts off no call.
 */

/** Time for a transfer of unknown speed: this long, plus time for its bytes. */
const BASE_DEADLINE_MS = 30_000;
const SLOWEST_BYTES_PER_SECOND = 64 * 1024;

/** Default deadline of a call that moves so many bytes, in whole seconds. */
function defaultDeadlineMs(bytes: number): number {
  // Whole seconds, because timers of equal length share one list.
  return Math.min(
    BASE_DEADLINE_MS + Math.ceil(bytes / SLOWEST_BYTES_PER_SECOND) * 1_000,
    MAX_TIMER_MS,
  );
}

export interface CallOptions {
  /** Ends the call with `aborted` at any stage. */
  readonly signal?: AbortSignal | undefined;
  /** Milliseconds for the whole call. Default 30,000, and a second more for each 64 KiB moved. */
  readonly deadlineMs?: number | undefined;
}

export class Deadline implements Call {
  readonly operation: string;
  readonly fileId: string | undefined;
  /** The call goes on after its result, until the stream that it returned has ended. */
  isStreaming = false;
  readonly #signal: AbortSignal | undefined;
  readonly #fixed: boolean;
  readonly #startedAt = performance.now();
  #bytes: number;
  #endsAt: number;
  #timer: NodeJS.Timeout | undefined;
  #error: FastdfsError | undefined;
  #watcher: ((error: FastdfsError) => void) | undefined;
  readonly #onAbort = (): void => {
    this.#end(this.error('aborted', 'aborted by the caller', { cause: this.#signal?.reason }));
  };

  /** Throws FastdfsError: `invalid_argument`, or `aborted` if the signal already is. */
  constructor(operation: string, options: CallOptions, bytes = 0, fileId?: string) {
    this.operation = operation;
    this.fileId = fileId;
    const { signal, deadlineMs } = options;
    if (deadlineMs !== undefined && !(deadlineMs > 0 && deadlineMs <= MAX_TIMER_MS)) {
      throw this.error('invalid_argument', `deadlineMs is ${deadlineMs}`);
    }
    this.#signal = signal;
    this.#fixed = deadlineMs !== undefined;
    this.#bytes = bytes;
    const ms = deadlineMs ?? defaultDeadlineMs(bytes);
    this.#endsAt = this.#startedAt + ms;
    if (signal?.aborted)
      throw this.error('aborted', 'aborted by the caller', { cause: signal.reason });
    signal?.addEventListener('abort', this.#onAbort, { once: true });
    this.#arm(ms);
  }

  get remainingMs(): number {
    return Math.max(0, this.#endsAt - performance.now());
  }

  /** An error of this call. */
  error(
    code: FastdfsErrorCode,
    message: string,
    details: Omit<FastdfsErrorDetails, 'operation' | 'fileId'> = {},
  ): FastdfsError {
    return new FastdfsError(code, message, {
      ...details,
      operation: this.operation,
      fileId: this.fileId,
    });
  }

  /** The error of an answer, or the place of the bytes if they are at another id. */
  refused(command: string, status: number, body: Buffer, address: string): Error {
    const isElsewhere = status === Status.redirect && command === downloadFile.name;
    const place = isElsewhere ? parseFileId(body.toString()) : undefined;
    if (place) return new Redirect(place);
    const message = `the server answered ${statusText(status)}`;
    return this.error(codeOfStatus(status), message, { address, status });
  }

  throwIfEnded(): void {
    if (this.#error) throw this.#error;
  }

  /** Sets what to call when the call ends; one at a time. */
  watch(watcher: (error: FastdfsError) => void): void {
    if (this.#watcher) throw new Error('a call waits at one stage at a time');
    this.#watcher = watcher;
    if (this.#error) this.#notify(this.#error);
  }

  unwatch(): void {
    this.#watcher = undefined;
  }

  /** Waits unless the call ends first; then it rejects with that error. */
  pause(ms: number): Promise<void> {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        this.unwatch();
        resolve();
      }, ms);
      this.watch((error) => {
        clearTimeout(timer);
        reject(error);
      });
    });
  }

  /** Extends the deadline for so many bytes in all, unless the caller set it. */
  allowBytes(bytes: number): void {
    if (this.#fixed || bytes <= this.#bytes) return;
    this.#bytes = bytes;
    // The timer checks for a later end when it fires: most calls are over by then.
    this.#endsAt = this.#startedAt + defaultDeadlineMs(bytes);
  }

  /** Stops watching the call. Must be called once it is settled. */
  settle(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#watcher = undefined;
    this.#signal?.removeEventListener('abort', this.#onAbort);
  }

  #arm(ms: number): void {
    this.#timer = setTimeout(
      () => {
        const { remainingMs } = this;
        // A timer may fire a little early.
        if (remainingMs > 1) this.#arm(remainingMs);
        else
          this.#end(
            this.error(
              'timeout',
              `not done within ${Math.round(this.#endsAt - this.#startedAt)} ms`,
            ),
          );
      },
      Math.max(1, ms),
    );
  }

  #end(error: FastdfsError): void {
    if (this.#error) return;
    this.#error = error;
    this.#notify(error);
  }

  #notify(error: FastdfsError): void {
    const watcher = this.#watcher;
    this.#watcher = undefined;
    watcher?.(error);
  }
}

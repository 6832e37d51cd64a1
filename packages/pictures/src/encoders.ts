import { type ChildProcess, fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { ProblemError } from '@stevedore/middleware/core';
import { type EncoderAnswer, type EncoderJob, TOO_MUCH_MEMORY } from './encoder.js';
import type { Variant } from './variant.js';

/**
 * Processes that make pictures, and the asks that wait for one. Bounded in processes, asks, time
 * and memory. A process that dies takes one picture with it and is replaced by the next ask.
 */

export interface EncoderLimits {
  readonly processes: number;
  /** Asks that wait; more are refused with `pictures_busy`. */
  readonly maxWaiting: number;
  readonly timeoutMs: number;
  readonly maxPixels: number;
  /** Of one process. */
  readonly maxMemoryBytes: number;
}

interface Ask {
  readonly bytes: Uint8Array;
  readonly variant: Variant;
  readonly resolve: (bytes: Buffer) => void;
  readonly reject: (error: ProblemError) => void;
}

const PROGRAM = fileURLToPath(new URL('./encoder.js', import.meta.url));

export class Encoders {
  readonly #limits: EncoderLimits;
  readonly #idle: ChildProcess[] = [];
  readonly #waiting: Ask[] = [];
  readonly #all = new Set<ChildProcess>();
  #closed = false;

  constructor(limits: EncoderLimits) {
    this.#limits = limits;
  }

  /** Rejects with `picture_unsupported`, `picture_broken`, `picture_too_costly`, `pictures_busy`. */
  encode(bytes: Uint8Array, variant: Variant): Promise<Buffer> {
    return new Promise((resolve, reject) => {
      if (this.#closed || this.#waiting.length >= this.#limits.maxWaiting) {
        reject(new ProblemError('pictures_busy', 'Too many pictures are being made; try again.'));
        return;
      }
      this.#waiting.push({ bytes, variant, resolve, reject });
      this.#next();
    });
  }

  /** Ends the processes; what waits is refused. */
  close(): void {
    this.#closed = true;
    for (const child of this.#all) child.kill('SIGKILL');
    for (const { reject } of this.#waiting.splice(0)) {
      reject(new ProblemError('shutting_down', 'The server is shutting down.'));
    }
  }

  #next(): void {
    const ask = this.#waiting[0];
    if (!ask || this.#closed) return;
    const child = this.#idle.pop() ?? this.#start();
    if (!child) return;
    this.#waiting.shift();
    this.#run(child, ask);
  }

  #start(): ChildProcess | undefined {
    if (this.#all.size >= this.#limits.processes) return undefined;
    const child = fork(PROGRAM, { serialization: 'advanced', env: {}, execArgv: [] });
    this.#all.add(child);
    const gone = (): void => {
      this.#all.delete(child);
      const at = this.#idle.indexOf(child);
      if (at >= 0) this.#idle.splice(at, 1);
      this.#next();
    };
    child.once('exit', gone);
    child.once('error', gone);
    child.unref();
    child.channel?.unref();
    return child;
  }

  #run(child: ChildProcess, { bytes, variant, resolve, reject }: Ask): void {
    const { timeoutMs, maxPixels, maxMemoryBytes } = this.#limits;
    let timedOut = false;
    const timer = setTimeout(() => {
      timedOut = true;
      child.kill('SIGKILL');
    }, timeoutMs);
    const settle = (): void => {
      clearTimeout(timer);
      child.off('message', onAnswer);
      child.off('exit', onExit);
    };
    const onAnswer = (answer: EncoderAnswer): void => {
      settle();
      if ('bytes' in answer)
        resolve(Buffer.from(answer.bytes.buffer, answer.bytes.byteOffset, answer.bytes.length));
      else
        reject(new ProblemError(answer.failure, `The picture cannot be made: ${answer.message}.`));
      this.#idle.push(child);
      this.#next();
    };
    const onExit = (code: number | null): void => {
      settle();
      if (timedOut || code === TOO_MUCH_MEMORY) {
        const what = timedOut ? `takes longer than ${timeoutMs} ms` : 'takes too much memory';
        reject(new ProblemError('picture_too_costly', `The picture ${what}.`));
      } else if (this.#closed) {
        reject(new ProblemError('shutting_down', 'The server is shutting down.'));
      } else {
        reject(new ProblemError('picture_broken', 'The picture broke its decoder.'));
      }
    };
    child.on('message', onAnswer);
    child.on('exit', onExit);
    const job: EncoderJob = { bytes, variant, maxPixels, maxMemoryBytes };
    child.send(job, (error) => {
      if (error) child.kill('SIGKILL');
    });
  }
}

import { type ChildProcess, fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { ProblemError } from '@stevedore/middleware/core';
import { type EncoderAnswer, type EncoderJob, TOO_MUCH_MEMORY } from './encoder-job.js';
import type { Variant } from './variant.js';

/**
 * A pool of encoder processes, and the requests that wait for one. Bounded in processes, requests,
 * time and memory. Clients take turns, so that one with many requests does not hold up the others.
 * A process that dies fails one picture, and the next request replaces it.
 */

export interface EncoderLimits
  extends Pick<EncoderJob, 'maxPixels' | 'maxSidePixels' | 'maxMemoryBytes'> {
  readonly processes: number;
  /** Waiting requests; more are refused with `pictures_busy`. */
  readonly maxWaiting: number;
  readonly timeoutMs: number;
}

interface Ask {
  readonly read: () => Promise<Uint8Array>;
  readonly variant: Variant;
  readonly resolve: (bytes: Buffer) => void;
  readonly reject: (error: unknown) => void;
}

const PROGRAM = fileURLToPath(new URL('./encoder.js', import.meta.url));

export class Encoders {
  readonly #limits: EncoderLimits;
  readonly #idle: ChildProcess[] = [];
  /** By client, never empty. The first one is served next and then goes to the end. */
  readonly #waiting = new Map<string, Ask[]>();
  readonly #all = new Set<ChildProcess>();
  #closed = false;

  constructor(limits: EncoderLimits) {
    this.#limits = limits;
  }

  /**
   * `read` loads the original once a process is free, so that at most as many are in memory as
   * there are processes. Rejects as `read` does, and with `picture_unsupported`, `picture_broken`,
   * `picture_too_costly`, `pictures_busy`, `shutting_down`.
   */
  encode(read: Ask['read'], variant: Variant, client: string): Promise<Buffer> {
    return new Promise((resolve, reject) => {
      if (this.#closed || !this.#makeRoom(client)) {
        reject(busy());
        return;
      }
      const asks = this.#waiting.get(client) ?? [];
      asks.push({ read, variant, resolve, reject });
      this.#waiting.set(client, asks);
      this.#next();
    });
  }

  /** Ends the processes; waiting requests are refused. */
  close(): void {
    this.#closed = true;
    for (const child of this.#all) child.kill('SIGKILL');
    for (const { reject } of [...this.#waiting.values()].flat()) {
      reject(new ProblemError('shutting_down', 'The server is shutting down.'));
    }
    this.#waiting.clear();
  }

  /** If all places are taken, the client with the most of them gives one to a client with fewer. */
  #makeRoom(client: string): boolean {
    let [taken, most]: [number, Ask[]] = [0, []];
    for (const asks of this.#waiting.values()) {
      taken += asks.length;
      if (asks.length > most.length) most = asks;
    }
    if (taken < this.#limits.maxWaiting) return true;
    const own = this.#waiting.get(client)?.length ?? 0;
    if (most.length <= own + 1) return false;
    most.pop()?.reject(busy());
    return true;
  }

  #next(): void {
    const [first] = this.#waiting;
    if (!first || this.#closed) return;
    const child = this.#idle.pop() ?? this.#start();
    if (!child) return;
    const [client, [ask, ...rest]] = first as [string, [Ask, ...Ask[]]];
    this.#waiting.delete(client);
    if (rest.length > 0) this.#waiting.set(client, rest);
    this.#run(child, ask).then(ask.resolve, ask.reject);
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

  async #run(child: ChildProcess, { read, variant }: Ask): Promise<Buffer> {
    let answer: EncoderAnswer;
    try {
      const bytes = await read();
      answer = await this.#answer(child, { bytes, variant, ...this.#limits });
    } finally {
      if (this.#all.has(child)) this.#idle.push(child);
      this.#next();
    }
    if ('bytes' in answer) return Buffer.from(answer.bytes);
    throw new ProblemError(answer.failure, `The picture cannot be made: ${answer.message}.`);
  }

  /** Rejects if the process ends first. */
  #answer(child: ChildProcess, job: EncoderJob): Promise<EncoderAnswer> {
    const { timeoutMs } = this.#limits;
    return new Promise((resolve, reject) => {
      let timedOut = false;
      const timer = setTimeout(() => {
        timedOut = true;
        child.kill('SIGKILL');
      }, timeoutMs);
      const settle = (): void => {
        clearTimeout(timer);
        child.off('message', onAnswer);
        child.off('exit', onEnd);
        child.off('error', onEnd);
      };
      const onAnswer = (answer: EncoderAnswer): void => {
        settle();
        resolve(answer);
      };
      const onEnd = (code: unknown): void => {
        settle();
        reject(this.#problemOf(code, timedOut));
      };
      child.on('message', onAnswer);
      child.on('exit', onEnd);
      child.on('error', onEnd);
      if (!this.#all.has(child)) onEnd(null);
      else child.send(job, (error) => void (error && child.kill('SIGKILL')));
    });
  }

  #problemOf(code: unknown, timedOut: boolean): ProblemError {
    if (this.#closed) return new ProblemError('shutting_down', 'The server is shutting down.');
    if (timedOut) {
      const message = `The picture takes longer than ${this.#limits.timeoutMs} ms.`;
      return new ProblemError('picture_too_costly', message);
    }
    return code === TOO_MUCH_MEMORY
      ? new ProblemError('picture_too_costly', 'The picture takes too much memory.')
      : new ProblemError('picture_broken', 'The picture broke its decoder.');
  }
}

function busy(): ProblemError {
  return new ProblemError('pictures_busy', 'Too many pictures are being made; try again.');
}

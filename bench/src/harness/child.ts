import { type ChildProcess, fork } from 'node:child_process';
import { basename } from 'node:path';
import { fileURLToPath } from 'node:url';

/**
 * Processes of a benchmark: the parent's end. A child answers calls, one reply per
 * call; every call has a time limit; a child that ends by itself fails all calls.
 * No child outlives its parent.
 */

/** What a child can do, by name; one argument, one result. */
export type Handlers = Readonly<Record<string, (argument: never) => unknown>>;

export interface Call {
  readonly id: number;
  readonly name: string;
  readonly argument: unknown;
}

export type Reply =
  | { readonly id: number; readonly result: unknown }
  | { readonly id: number; readonly error: string };

const DEFAULT_CALL_LIMIT_MS = 180_000;
/** A child that is asked to end gets so long, then it is killed. */
const CLOSE_LIMIT_MS = 10_000;
/** Each listens for the end of its parent. */
const MAX_PROCESSES = 64;

process.setMaxListeners(MAX_PROCESSES);

export interface ChildOptions {
  /** For its Node, beside our own ones; default none. */
  readonly nodeOptions?: readonly string[];
  /** How long a call may take; default three minutes. */
  readonly callLimitMs?: number;
  /** Variables of its environment, beside our own ones; default none. */
  readonly env?: Readonly<Record<string, string>>;
}

/** A process with what `stevedore` sets for itself. */
export const AS_THE_COMMAND: ChildOptions = {
  env: { UV_THREADPOOL_SIZE: '16' },
  nodeOptions: ['--heap-growing-percent=200'],
};

interface Pending {
  readonly resolve: (result: unknown) => void;
  readonly reject: (error: Error) => void;
  readonly timer: NodeJS.Timeout;
}

export class Child<H extends Handlers> implements AsyncDisposable {
  readonly #name: string;
  readonly #callLimitMs: number;
  readonly #process: ChildProcess;
  readonly #exited: Promise<void>;
  readonly #pending = new Map<number, Pending>();
  readonly #killAtExit: () => void;
  #calls = 0;

  /** `module` is a file that calls `serve`. */
  constructor(module: URL, options: ChildOptions = {}) {
    const name = basename(fileURLToPath(module), '-process.js');
    this.#name = name;
    this.#callLimitMs = options.callLimitMs ?? DEFAULT_CALL_LIMIT_MS;
    this.#process = fork(module, {
      serialization: 'advanced',
      execArgv: [...process.execArgv, ...(options.nodeOptions ?? [])],
      env: { ...process.env, ...options.env },
    });
    this.#killAtExit = () => this.#process.kill('SIGKILL');
    // First of all: nobody writes any more when directories are removed.
    process.prependOnceListener('exit', this.#killAtExit);
    this.#process.on('message', (reply: Reply) => this.#settle(reply));
    this.#process.on('error', (error) => this.#failAll(error));
    this.#exited = new Promise((resolve) => {
      this.#process.once('exit', (code, signal) => {
        process.off('exit', this.#killAtExit);
        this.#failAll(new Error(`${name} ended (${signal ?? code})`));
        resolve();
      });
    });
  }

  call<Name extends keyof H & string>(
    name: Name,
    ...[argument]: Parameters<H[Name]>
  ): Promise<Awaited<ReturnType<H[Name]>>> {
    return this.#call(name, argument) as Promise<Awaited<ReturnType<H[Name]>>>;
  }

  get pid(): number {
    return this.#process.pid ?? 0;
  }

  /** CPU of all its threads so far. */
  cpuSeconds(): Promise<number> {
    return this.#call('cpu', undefined) as Promise<number>;
  }

  rssBytes(): Promise<number> {
    return this.#call('rss', undefined) as Promise<number>;
  }

  /** A call, or several, and the CPU that they took here. */
  async during<T>(work: () => Promise<T>): Promise<readonly [result: T, cpuSeconds: number]> {
    const before = await this.cpuSeconds();
    const result = await work();
    return [result, (await this.cpuSeconds()) - before];
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#process.connected) this.#process.disconnect();
    const timer = setTimeout(this.#killAtExit, CLOSE_LIMIT_MS);
    await this.#exited;
    clearTimeout(timer);
  }

  #call(name: string, argument: unknown): Promise<unknown> {
    this.#calls += 1;
    const id = this.#calls;
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        this.#pending.delete(id);
        reject(new Error(`${this.#name} did not answer ${name} within ${this.#callLimitMs} ms`));
      }, this.#callLimitMs);
      this.#pending.set(id, { resolve, reject, timer });
      this.#process.send({ id, name, argument } satisfies Call, (error) => {
        if (error) this.#settle({ id, error: error.message });
      });
    });
  }

  #settle(reply: Reply): void {
    const pending = this.#pending.get(reply.id);
    if (!pending) return;
    this.#pending.delete(reply.id);
    clearTimeout(pending.timer);
    if ('error' in reply) pending.reject(new Error(`${this.#name}: ${reply.error}`));
    else pending.resolve(reply.result);
  }

  #failAll(error: Error): void {
    for (const id of [...this.#pending.keys()]) this.#settle({ id, error: error.message });
  }
}

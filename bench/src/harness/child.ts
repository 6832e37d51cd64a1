import { type ChildProcess, fork } from 'node:child_process';
import { basename } from 'node:path';

/**
 * A process of a benchmark, as its parent sees it. It is a module that ends in `-process.ts`: what it
 * exports is called by name, with one reply per call; its `close` is called at the end. Every call has
 * a time limit; a child that ends by itself fails all calls. No child outlives its parent.
 */

export interface Call {
  readonly id: number;
  readonly name: string;
  readonly given: readonly unknown[];
}

export interface Reply {
  readonly id: number;
  readonly result?: unknown;
  readonly error?: string;
}

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

const WORKER = new URL('./worker-process.js', import.meta.url);
const DEFAULT_CALL_LIMIT_MS = 180_000;
/** A child that is asked to end gets so long, then it is killed. */
const CLOSE_LIMIT_MS = 10_000;
/** Each listens for the end of its parent. */
process.setMaxListeners(64);

type Given<F> = F extends (...given: infer All) => unknown ? All : never;
type Answer<F> = F extends (...given: never) => infer Result ? Promise<Awaited<Result>> : never;

/** `M`: `typeof import('./x-process.js')`. */
export class Child<M> implements AsyncDisposable {
  readonly #name: string;
  readonly #callLimitMs: number;
  readonly #process: ChildProcess;
  readonly #exited: Promise<void>;
  readonly #pending = new Map<number, (reply: Reply) => void>();
  readonly #kill = () => this.#process.kill('SIGKILL');
  #calls = 0;

  constructor(module: URL, options: ChildOptions = {}) {
    const { nodeOptions = [], callLimitMs = DEFAULT_CALL_LIMIT_MS, env } = options;
    this.#name = basename(module.pathname, '-process.js');
    this.#callLimitMs = callLimitMs;
    this.#process = fork(WORKER, [module.href], {
      serialization: 'advanced',
      execArgv: [...process.execArgv, ...nodeOptions],
      env: { ...process.env, ...env },
    });
    // First of all: nobody writes any more when directories are removed.
    process.prependOnceListener('exit', this.#kill);
    this.#process.on('message', (reply: Reply) => this.#pending.get(reply.id)?.(reply));
    this.#process.on('error', ({ message }) => this.#failAll(message));
    this.#exited = new Promise((resolve) => {
      this.#process.once('exit', (code, signal) => {
        process.off('exit', this.#kill);
        this.#failAll(`it ended (${signal ?? code})`);
        resolve();
      });
    });
  }

  call<Name extends keyof M & string>(name: Name, ...given: Given<M[Name]>): Answer<M[Name]> {
    return this.#call(name, given) as Answer<M[Name]>;
  }

  get pid(): number {
    return this.#process.pid ?? 0;
  }

  /** CPU of all its threads so far. */
  cpuSeconds(): Promise<number> {
    return this.#call('cpu', []) as Promise<number>;
  }

  rssBytes(): Promise<number> {
    return this.#call('rss', []) as Promise<number>;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#process.connected) this.#process.disconnect();
    const timer = setTimeout(this.#kill, CLOSE_LIMIT_MS);
    await this.#exited;
    clearTimeout(timer);
  }

  #call(name: string, given: readonly unknown[]): Promise<unknown> {
    const id = ++this.#calls;
    return new Promise((resolve, reject) => {
      const settle = ({ result, error }: Reply): void => {
        this.#pending.delete(id);
        clearTimeout(timer);
        if (error === undefined) resolve(result);
        else reject(new Error(`${this.#name}: ${error}`));
      };
      const late = `no answer to ${name} within ${this.#callLimitMs} ms`;
      const timer = setTimeout(() => settle({ id, error: late }), this.#callLimitMs);
      this.#pending.set(id, settle);
      this.#process.send({ id, name, given } satisfies Call, (error) => {
        if (error) this.#pending.get(id)?.({ id, error: error.message });
      });
    });
  }

  #failAll(error: string): void {
    for (const [id, settle] of this.#pending) settle({ id, error });
  }
}

/** The result, and the CPU that a child took meanwhile; none: undefined. */
export async function withCpuOf<T>(
  child: Pick<Child<unknown>, 'cpuSeconds'> | undefined,
  work: () => Promise<T>,
): Promise<readonly [result: T, cpuSeconds: number | undefined]> {
  const before = await child?.cpuSeconds();
  const result = await work();
  const after = await child?.cpuSeconds();
  return [result, before === undefined || after === undefined ? undefined : after - before];
}

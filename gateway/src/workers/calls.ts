/**
 * Calls between the processes of one gateway, over the channel that Node opens between a process
 * and its forks. Every call is answered, times out, or fails when the other process ends; the
 * number of waiting calls is bounded. Errors keep their name, code, message and headers.
 */

export type Functions = { readonly [name: string]: (...args: never[]) => unknown };

interface Question {
  readonly call: string;
  readonly args: readonly unknown[];
  /** Absent if no answer is wanted. */
  readonly id?: number;
}

interface Answer {
  readonly answers: number;
  readonly result?: unknown;
  readonly error?: PlainError;
}

interface Waiting {
  readonly resolve: (result: unknown) => void;
  readonly reject: (error: Error) => void;
  readonly timer: NodeJS.Timeout | undefined;
}

const CALL_TIMEOUT_MS = 5_000;
const MAX_WAITING = 10_000;

/** One end of the channel: sends calls, and answers those of the other end. */
export class Calls<Asked extends Functions> {
  readonly #send: (message: object) => void;
  readonly #answers: Functions;
  readonly #waiting = new Map<number, Waiting>();
  #last = 0;
  #ended: Error | undefined;

  constructor(send: (message: object) => void, answers: Functions) {
    this.#send = send;
    this.#answers = answers;
  }

  ask<Name extends keyof Asked & string>(
    call: Name,
    ...args: Parameters<Asked[Name]>
  ): Promise<Awaited<ReturnType<Asked[Name]>>> {
    return this.askWithin(CALL_TIMEOUT_MS, call, ...args);
  }

  /** `limitMs` 0: no timeout while the other process lives. */
  askWithin<Name extends keyof Asked & string>(
    limitMs: number,
    call: Name,
    ...args: Parameters<Asked[Name]>
  ): Promise<Awaited<ReturnType<Asked[Name]>>> {
    return new Promise<unknown>((resolve, reject) => {
      if (this.#ended) return reject(this.#ended);
      if (this.#waiting.size >= MAX_WAITING) return reject(away('too many calls wait'));
      this.#last += 1;
      const id = this.#last;
      const giveUp = () => this.#settle(id)?.reject(away(`no answer to "${call}"`));
      const timer = limitMs > 0 ? setTimeout(giveUp, limitMs).unref() : undefined;
      this.#waiting.set(id, { resolve, reject, timer });
      this.#send({ call, args, id } satisfies Question);
    }) as Promise<Awaited<ReturnType<Asked[Name]>>>;
  }

  /** Without waiting for an answer. */
  tell<Name extends keyof Asked & string>(call: Name, ...args: Parameters<Asked[Name]>): void {
    if (!this.#ended) this.#send({ call, args } satisfies Question);
  }

  /** Call it with every message of the other process. */
  take(message: unknown): void {
    const { answers, ...outcome } = message as Answer;
    if (answers === undefined) return void this.#answer(message as Question);
    const waiting = this.#settle(answers);
    if (outcome.error) waiting?.reject(errorOf(outcome.error));
    else waiting?.resolve(outcome.result);
  }

  /** The other process has ended. */
  end(why: Error): void {
    this.#ended = why;
    for (const id of [...this.#waiting.keys()]) this.#settle(id)?.reject(why);
  }

  #settle(id: number): Waiting | undefined {
    const waiting = this.#waiting.get(id);
    this.#waiting.delete(id);
    clearTimeout(waiting?.timer);
    return waiting;
  }

  async #answer({ call, args, id }: Question): Promise<void> {
    const outcome: Omit<Answer, 'answers'> = await (async () => {
      const answer = this.#answers[call] as ((...given: readonly unknown[]) => unknown) | undefined;
      if (!answer) throw new Error(`there is no call "${call}"`);
      return { result: await answer(...args) };
    })().catch((error: Error) => ({ error: plainError(error) }));
    if (id !== undefined && !this.#ended) this.#send({ answers: id, ...outcome });
  }
}

/** Another process of the gateway does not answer now; clients may retry. */
export function away(why: string): Error {
  const message = `another process of this gateway cannot be asked now: ${why}`;
  return errorOf({ name: 'StoreError', code: 'storage_unavailable', message, retryable: true });
}

export interface PlainError {
  readonly name: string;
  readonly message: string;
  readonly code?: unknown;
  readonly retryable?: unknown;
  /** Of a problem. */
  readonly headers?: unknown;
  /** The error code of a failed send. */
  readonly syscall?: unknown;
  readonly address?: unknown;
  readonly port?: unknown;
  readonly path?: unknown;
}

export function plainError(error: Error): PlainError {
  const { name, message, code, retryable, headers } = error as PlainError;
  const { syscall, address, port, path } = error as PlainError;
  return { name, message, code, retryable, headers, syscall, address, port, path };
}

export function errorOf({ message, ...others }: PlainError): Error {
  const known = Object.entries(others).filter(([, value]) => value !== undefined);
  return Object.assign(new Error(message), Object.fromEntries(known));
}

import type { Call } from './call.js';

/** Reads an async iterable chunk by chunk; a wait for it can be interrupted. */
export class SourceCursor {
  readonly #iterator: AsyncIterator<Uint8Array>;
  #ended = false;
  #interrupted = false;
  #wake: (() => void) | undefined;
  readonly interrupt = (): void => {
    this.#interrupted = true;
    this.#wake?.();
  };

  constructor(body: AsyncIterable<Uint8Array>) {
    this.#iterator = body[Symbol.asyncIterator]();
  }

  get interrupted(): boolean {
    return this.#interrupted;
  }

  /** The next chunk; undefined at the end and when interrupted. */
  async next(call: Call): Promise<Uint8Array | undefined> {
    if (this.#ended || this.#interrupted) return undefined;
    const result = await this.#pull();
    if (!result) return undefined;
    if (result.done) {
      this.#ended = true;
      return undefined;
    }
    if (!(result.value instanceof Uint8Array)) {
      throw call.error('invalid_argument', 'the body yielded something else than bytes');
    }
    return result.value;
  }

  /** Tells the source that no more is wanted, unless it has ended by itself. */
  stop(): void {
    if (this.#ended) return;
    this.#ended = true;
    try {
      this.#iterator.return?.().then(undefined, () => {});
    } catch {
      // The call has its result; a source that fails to stop changes nothing.
    }
  }

  async #pull(): Promise<IteratorResult<Uint8Array> | undefined> {
    try {
      return await new Promise((resolve, reject) => {
        this.#wake = () => resolve(undefined);
        this.#iterator.next().then(resolve, reject);
      });
    } finally {
      this.#wake = undefined;
    }
  }
}

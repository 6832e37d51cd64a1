import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Connection } from './connection.js';
import type { Deadline } from './deadline.js';
import type { FastdfsError } from './errors.js';
import type { ReplyReader } from './reply-reader.js';

/**
 * A body that can be read only once, of a size known beforehand. Never more than
 * one chunk of it is held. The chunk that completes the size goes out only when
 * the source has ended, so that a body that is too long is not stored.
 */
export class BodySource {
  readonly #body: AsyncIterable<Uint8Array>;
  readonly #size: number;
  #touched = false;

  constructor(body: AsyncIterable<Uint8Array>, size: number) {
    this.#body = body;
    this.#size = size;
  }

  /** True once a byte may have been taken from the source. */
  get touched(): boolean {
    return this.#touched;
  }

  /**
   * Sends head and body and resolves when `reader` has the reply. Rejects with
   * `length_mismatch`, with the source's own error, or as `Connection.exchange`;
   * the connection is closed then, and the source told to stop.
   */
  async sendOver(
    connection: Connection,
    head: Buffer,
    reader: ReplyReader,
    deadline: Deadline,
    progressMs: number,
  ): Promise<void> {
    this.#touched = true;
    const source = new SourceCursor(this.#body);
    const reply = connection.exchange([], reader, deadline, progressMs, false);
    connection.expectNothing();
    // A reply before the end, or a lost connection, ends the wait for the source.
    reply.then(source.interrupt, source.interrupt);
    try {
      await this.#pump(connection, head, source, deadline);
    } catch (error) {
      connection.destroy(error);
    } finally {
      source.stop();
    }
    return reply;
  }

  async #pump(
    connection: Connection,
    head: Buffer,
    source: SourceCursor,
    deadline: Deadline,
  ): Promise<void> {
    let held: Uint8Array[] = [head];
    let left = this.#size;
    for (;;) {
      const chunk = await source.next(deadline);
      if (source.interrupted) return;
      if (chunk === undefined) break;
      if (chunk.length > left) throw this.#mismatch(deadline, 'more');
      if (chunk.length === 0) continue;
      left -= chunk.length;
      held.push(chunk);
      if (left === 0) continue;
      await connection.send(held, false);
      held = [];
      // A source that is always ready must not keep a refusal, or other calls, waiting.
      await nextTurn();
    }
    if (left > 0) throw this.#mismatch(deadline, 'fewer');
    await connection.send(held, true);
  }

  #mismatch(deadline: Deadline, than: 'more' | 'fewer'): FastdfsError {
    return deadline.error('length_mismatch', `the body has ${than} than its ${this.#size} bytes`);
  }
}

/** Reads an async iterable chunk by chunk; a wait for it can be interrupted. */
class SourceCursor {
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
  async next(deadline: Deadline): Promise<Uint8Array | undefined> {
    if (this.#ended || this.#interrupted) return undefined;
    const result = await this.#pull();
    if (!result) return undefined;
    if (result.done) {
      this.#ended = true;
      return undefined;
    }
    if (!(result.value instanceof Uint8Array)) {
      throw deadline.error('invalid_argument', 'the body yielded something else than bytes');
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

import { setImmediate as nextTurn } from 'node:timers/promises';
import { types } from 'node:util';
import type { Connection } from './connection.js';
import type { Call, ReceivedReply } from './reply.js';

/**
 * A body that comes in chunks, of known size. At most one chunk is held. The chunk that completes
 * the size is sent only when the source has ended, so that a body that is too long is not stored.
 */
export class BodySource {
  /** True if it can be read again from its start, as a file can. */
  readonly repeatable: boolean;
  readonly #open: () => AsyncIterable<Uint8Array>;
  readonly #size: number;
  #touched = false;

  constructor(open: () => AsyncIterable<Uint8Array>, size: number, repeatable: boolean) {
    this.#open = open;
    this.#size = size;
    this.repeatable = repeatable;
  }

  /** True once a byte may have been taken from a source that is not repeatable. */
  get spent(): boolean {
    return this.#touched && !this.repeatable;
  }

  /** The bytes as they come. A second call restarts, if the body is repeatable. */
  chunks(): AsyncIterable<Uint8Array> {
    this.#touched = true;
    return this.#open();
  }

  /**
   * Sends the body behind `head`; resolves when `reply` is complete. Rejects with `length_mismatch`, with
   * the source's own error, or as `Connection.exchange`. Then the connection is closed, and the
   * source stopped.
   */
  async sendOver(
    connection: Connection,
    head: readonly Uint8Array[],
    reply: ReceivedReply,
    call: Call,
    progressMs: number,
  ): Promise<void> {
    this.#touched = true;
    const source = new SourceCursor(this.#open());
    const done = connection.exchange([], reply, call, progressMs, false);
    connection.expectNothing();
    // A reply before the end, or a lost connection, ends the wait for the source.
    done.then(source.interrupt, source.interrupt);
    try {
      await this.#pump(connection, head, source, call);
    } catch (error) {
      connection.destroy(error);
    } finally {
      source.stop();
    }
    return done;
  }

  async #pump(
    connection: Connection,
    head: readonly Uint8Array[],
    source: SourceCursor,
    call: Call,
  ): Promise<void> {
    let held = [...head];
    let left = this.#size;
    for (;;) {
      const chunk = await source.next(call);
      if (source.interrupted) return;
      if (chunk === undefined) break;
      if (chunk.length > left) throw this.#mismatch(call, 'more');
      if (chunk.length === 0) continue;
      left -= chunk.length;
      held.push(chunk);
      if (left === 0) continue;
      await connection.send(held, false);
      held = [];
      // Yields, so that a source that is always ready does not delay a refusal or other calls.
      await nextTurn();
    }
    if (left > 0) throw this.#mismatch(call, 'fewer');
    await connection.send(held, true);
  }

  #mismatch(call: Call, than: 'more' | 'fewer'): Error {
    return call.error('length_mismatch', `the body has ${than} than its ${this.#size} bytes`);
  }
}

/** The bytes of an upload, ready to send. */
export interface PreparedBody {
  readonly size: number;
  readonly payload: Buffer | BodySource;
}

/** Reads an async iterable chunk by chunk; a wait can be interrupted. */
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

  /** The next chunk; undefined at the end or when interrupted. */
  async next(call: Call): Promise<Uint8Array | undefined> {
    if (this.#ended || this.#interrupted) return undefined;
    const result = await this.#pull();
    if (!result) return undefined;
    if (result.done) {
      this.#ended = true;
      return undefined;
    }
    if (!types.isUint8Array(result.value)) {
      throw call.error('invalid_argument', 'the body yielded something else than bytes');
    }
    return result.value;
  }

  /** Stops the source, unless it has ended. */
  stop(): void {
    if (this.#ended) return;
    this.#ended = true;
    try {
      this.#iterator.return?.().then(undefined, () => {});
    } catch {
      // The call has its result; it does not matter if the source fails to stop.
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

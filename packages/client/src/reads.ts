import { storeErrorOf } from '@stevedore/staging/errors';
import { readChannel, traced } from './channels.js';
import type { FileStore } from './types.js';

/** Counts the store's reads and publishes them on `readChannel`. */

export interface ReadsParts {
  /** Named in the messages of the channel. */
  readonly store: FileStore;
  readonly isClosed: () => boolean;
  /** Throws `closed` if it is. */
  readonly throwIfClosed: (cause?: unknown) => void;
}

export class Reads {
  readonly #parts: ReadsParts;
  readonly counts = { reads: 0, readBytes: 0, failedReads: 0 };

  constructor(parts: ReadsParts) {
    this.#parts = parts;
  }

  count(bytes: number): void {
    this.counts.reads += 1;
    this.counts.readBytes += bytes;
  }

  /** Runs a read of `bytes` bytes of a file. */
  async run<Result>(
    key: string | undefined,
    bytes: number,
    read: () => Promise<Result>,
  ): Promise<Result> {
    const { store, throwIfClosed } = this.#parts;
    this.count(bytes);
    try {
      throwIfClosed();
      return await traced(readChannel, () => ({ store, key, bytes }), read);
    } catch (error) {
      this.counts.failedReads += 1;
      // If the store closes during a read, the error says nothing about the file.
      throwIfClosed(error);
      throw storeErrorOf(error);
    }
  }

  /** A read that takes no time. Undefined if it gives nothing or must be published: then `run` it. */
  runNow(read: () => Buffer | undefined): Buffer | undefined {
    if (readChannel.hasSubscribers || this.#parts.isClosed()) return undefined;
    const bytes = read();
    if (bytes) this.count(bytes.length);
    return bytes;
  }
}

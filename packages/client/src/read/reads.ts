import { StoreError, storeErrorOf } from '@stevedore/staging/errors';
import { readChannel, traced } from '../store/channels.js';
import type { FileStore } from '../store/types.js';

/** Counts the store's reads, publishes them on `readChannel`, and ends them with the store. */
export class Reads {
  readonly #store: FileStore;
  readonly counts = { reads: 0, readBytes: 0, failedReads: 0 };
  /** Set once the store closes. */
  isClosed = false;

  /** `store`: named in the messages of the channel. */
  constructor(store: FileStore) {
    this.#store = store;
  }

  throwIfClosed(cause?: unknown): void {
    if (this.isClosed) throw new StoreError('closed', 'the store is closed', { cause });
  }

  /** False if a read must be published, or refused: then `run` it. */
  get mayBeNow(): boolean {
    return !readChannel.hasSubscribers && !this.isClosed;
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
    this.count(bytes);
    try {
      this.throwIfClosed();
      return await traced(readChannel, () => ({ store: this.#store, key, bytes }), read);
    } catch (error) {
      this.counts.failedReads += 1;
      // If the store closes during a read, the error says nothing about the file.
      this.throwIfClosed(error);
      throw storeErrorOf(error);
    }
  }
}

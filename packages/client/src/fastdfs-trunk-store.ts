import { type FastdfsClient, FastdfsError } from '@stevedore/fastdfs';
import { TRUNK_EXTENSION } from '@stevedore/protocol';
import type { TrunkSource, TrunkStore } from '@stevedore/staging';
import { storageError } from './reader.js';

const REMOVE_TIMEOUT_MS = 10_000;

/** FastDFS as staging sees it. */
export class FastdfsTrunkStore implements TrunkStore {
  readonly #client: FastdfsClient;
  /** The largest trunk that was seen in a slot. */
  #slotBytes = -1;

  constructor(client: FastdfsClient) {
    this.#client = client;
  }

  /**
   * A cluster that merges by itself puts what is small enough into a slot of a file of
   * its own, under a name from which no slice ids can be made. An appender never goes
   * there, and a regenerated one is a normal file with its size and CRC-32.
   */
  async store({ size, extension, chunks }: TrunkSource, signal: AbortSignal): Promise<string> {
    const options = { size, extension, signal };
    if (extension !== TRUNK_EXTENSION || size > this.#slotBytes) {
      const fileId = await this.#client.upload(chunks(), options);
      if (extension !== TRUNK_EXTENSION || this.#client.describe(fileId).kind !== 'slot') {
        return fileId;
      }
      this.#slotBytes = size;
      await this.remove(fileId, signal);
    }
    const appender = await this.#client.uploadAppender(chunks(), options);
    try {
      return await this.#client.regenerate(appender, { signal });
    } catch (error) {
      await this.remove(appender, AbortSignal.timeout(REMOVE_TIMEOUT_MS)).catch(() => undefined);
      throw error;
    }
  }

  async read(fileId: string, offset: number, length: number, signal: AbortSignal): Promise<Buffer> {
    try {
      return await this.#client.downloadBytes(fileId, { offset, length, signal });
    } catch (error) {
      // Only a storage can say that a file is gone; trackers know storages.
      if (error instanceof FastdfsError && error.code === 'unknown_group') throw error;
      throw storageError(error, fileId);
    }
  }

  async remove(fileId: string, signal: AbortSignal): Promise<void> {
    try {
      await this.#client.delete(fileId, { signal });
    } catch (error) {
      if (!(error instanceof FastdfsError && error.code === 'not_found')) throw error;
    }
  }
}

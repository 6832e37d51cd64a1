import { type FastdfsClient, FastdfsError } from '@stevedore/fastdfs';
import type { TrunkSource, TrunkStore } from '@stevedore/staging';
import { storageError } from './reader.js';

/** FastDFS as staging sees it. */
export class FastdfsTrunkStore implements TrunkStore {
  readonly #client: FastdfsClient;

  constructor(client: FastdfsClient) {
    this.#client = client;
  }

  store({ size, extension, chunks }: TrunkSource, signal: AbortSignal): Promise<string> {
    return this.#client.upload(chunks(), { size, extension, signal });
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

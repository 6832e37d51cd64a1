import { type FastdfsClient, FastdfsError } from '@stevedore/fastdfs';
import type { TrunkSource, TrunkStore } from '@stevedore/staging';

/** FastDFS as staging sees it. */
export class FastdfsTrunkStore implements TrunkStore {
  readonly #client: FastdfsClient;

  constructor(client: FastdfsClient) {
    this.#client = client;
  }

  store({ size, extension, chunks }: TrunkSource, signal: AbortSignal): Promise<string> {
    return this.#client.upload(chunks(), { size, extension, signal });
  }

  async remove(fileId: string, signal: AbortSignal): Promise<void> {
    try {
      await this.#client.delete(fileId, { signal });
    } catch (error) {
      if (!(error instanceof FastdfsError && error.code === 'not_found')) throw error;
    }
  }
}

import {
  type FastdfsClient,
  FastdfsError,
  isNotFound,
  type PossibleOrphan,
  type StorageRecord,
} from '@stevedore/fastdfs';
import type { EmbeddedNode } from '@stevedore/node/embedded';
import { addressText, StorageStatus, TRUNK_EXTENSION } from '@stevedore/protocol';
import type { ListedFile, Replicas, TrunkSource, TrunkStore } from '@stevedore/staging';
import { copyInto, sharedMemory } from '@stevedore/staging/shared-memory';
import { storageError } from '../read/failures.js';
import { replicasOf } from '../store/cluster.js';

const REMOVE_TIMEOUT_MS = 10_000;

/** Storages that hold files, or are about to. */
const MEMBERS: ReadonlySet<number> = new Set([
  StorageStatus.active,
  StorageStatus.offline,
  StorageStatus.online,
  StorageStatus.recovery,
]);

/** The TrunkStore of staging, in FastDFS. */
export class FastdfsTrunkStore implements TrunkStore {
  readonly #client: FastdfsClient;
  readonly #take: EmbeddedNode['take'] | undefined;
  /** Size of the largest trunk that FastDFS has put into a slot; -1: none. */
  #slotBytes = -1;

  /** `take`: of the node in this process, where the files go. */
  constructor(client: FastdfsClient, take?: EmbeddedNode['take']) {
    this.#client = client;
    this.#take = take;
  }

  /**
   * A cluster that merges by itself puts small files into slots of its own trunk files, under names
   * from which no slice ids can be made. An appender never goes there, and a regenerated one is a
   * normal file whose id has its size and CRC-32.
   */
  async store(source: TrunkSource, signal: AbortSignal): Promise<string> {
    const { size, onLost } = source;
    if (this.#take) {
      return await this.#take(source, signal).catch((error: unknown) => {
        if ((error as { readonly code?: unknown }).code === 'embedded_node_stopped') onLost?.();
        throw error;
      });
    }
    // Report an upload that was sent and not answered, even if its retry succeeds.
    const onOrphan = (orphan: PossibleOrphan) => {
      if (orphan.size === size) onLost?.();
    };
    this.#client.on('possibleOrphan', onOrphan);
    try {
      return await this.#store(source, signal);
    } finally {
      this.#client.off('possibleOrphan', onOrphan);
    }
  }

  async #store(source: TrunkSource, signal: AbortSignal): Promise<string> {
    const { size, extension, pieces, onLost } = source;
    const options = { size, extension, signal };
    if (extension !== TRUNK_EXTENSION || size > this.#slotBytes) {
      const fileId = await this.#client.upload(gathered(pieces()), options);
      if (extension !== TRUNK_EXTENSION || this.#client.describe(fileId).kind !== 'slot') {
        return fileId;
      }
      this.#slotBytes = size;
      await this.remove(fileId, signal).catch((error: unknown) => {
        onLost?.();
        throw error;
      });
    }
    const appender = await this.#client.uploadAppender(gathered(pieces()), options);
    try {
      return await this.#client.regenerate(appender, { signal });
    } catch (error) {
      // It may have been renamed nevertheless.
      onLost?.();
      await this.remove(appender, AbortSignal.timeout(REMOVE_TIMEOUT_MS)).catch(() => undefined);
      throw error;
    }
  }

  async read(
    fileId: string,
    offset: number,
    length: number,
    signal: AbortSignal,
    holder?: string,
  ): Promise<Buffer> {
    const storage = holder === undefined ? undefined : parseHolder(holder);
    try {
      return await this.#client.downloadBytes(fileId, { offset, length, signal, storage });
    } catch (error) {
      // Only a storage can say that a file is gone; trackers know only storages.
      if (error instanceof FastdfsError && error.code === 'unknown_group') throw error;
      throw storageError(error, fileId);
    }
  }

  async remove(fileId: string, signal: AbortSignal): Promise<void> {
    try {
      await this.#client.delete(fileId, { signal });
    } catch (error) {
      if (!isNotFound(error)) throw error;
    }
  }

  async replicas(fileId: string, signal: AbortSignal): Promise<Replicas> {
    const all = await replicasOf(fileId, this.#client, { signal });
    // A storage that does not answer proves nothing.
    const holders = all.flatMap(({ address, copy }) => (copy === 'present' ? [address] : []));
    return { holders, members: all.filter(({ active }) => active).length };
  }

  async sizeOf(fileId: string, signal: AbortSignal): Promise<number | undefined> {
    try {
      return (await this.#client.info(fileId, { signal, computeCrc: false })).size;
    } catch (error) {
      if (isNotFound(error)) return undefined;
      throw storageError(error, fileId);
    }
  }

  async list(onFile: (file: ListedFile) => void, signal: AbortSignal): Promise<readonly string[]> {
    const unlisted: string[] = [];
    let groups: readonly { readonly name: string }[];
    try {
      groups = await this.#client.listGroups({ signal });
    } catch (error) {
      signal.throwIfAborted();
      return [`the trackers name no storage groups: ${(error as Error).message}`];
    }
    for (const { name } of groups) {
      const storages = await this.#client.listStorages(name, { signal }).catch((error: Error) => {
        signal.throwIfAborted();
        unlisted.push(`the trackers name no storages of ${name}: ${error.message}`);
        return [];
      });
      for (const storage of storages) {
        const problem = await this.#listStorage(name, storage, onFile, signal);
        if (problem !== undefined) unlisted.push(problem);
      }
    }
    return unlisted;
  }

  /** Returns what went wrong, as one sentence. */
  async #listStorage(
    group: string,
    { address, storagePort: port, status, storePathCount }: StorageRecord,
    onFile: (file: ListedFile) => void,
    signal: AbortSignal,
  ): Promise<string | undefined> {
    if (!MEMBERS.has(status)) return undefined;
    const where = `storage ${addressText(address, port)} of ${group}`;
    if (status !== StorageStatus.active) return `${where} is away`;
    try {
      for (let storePathIndex = 0; storePathIndex < storePathCount; storePathIndex++) {
        const files = this.#client.listFiles({ group, address, port }, { storePathIndex, signal });
        for await (const { fileId, linkTo } of files) {
          if (linkTo === undefined) this.#tell(fileId, onFile);
        }
      }
      return undefined;
    } catch (error) {
      signal.throwIfAborted();
      return `${where} does not list its files: ${(error as Error).message}`;
    }
  }

  #tell(fileId: string, onFile: (file: ListedFile) => void): void {
    let description: ReturnType<FastdfsClient['describe']>;
    try {
      description = this.#client.describe(fileId);
    } catch {
      // Not a FastDFS name.
      return;
    }
    const { size, crc32, createdAt, kind } = description;
    if (kind === 'slave') return;
    onFile({ fileId, size, crc32, createdAt: createdAt.getTime() });
  }
}

/** Many pieces in one chunk, in the same memory: sending them one by one takes more than a copy. */
async function* gathered(source: AsyncIterable<readonly Uint8Array[]>): AsyncGenerator<Uint8Array> {
  let room: Buffer | undefined;
  for await (const pieces of source) {
    const bytes = pieces.reduce((sum, { length }) => sum + length, 0);
    if (!room || room.length < bytes) room = sharedMemory(bytes);
    let at = 0;
    for (const piece of pieces) {
      copyInto(room, at, piece);
      at += piece.length;
    }
    yield room.subarray(0, at);
  }
}

function parseHolder(holder: string): { readonly address: string; readonly port: number } {
  const colon = holder.lastIndexOf(':');
  const address = holder.slice(0, colon).replace(/^\[|\]$/g, '');
  return { address, port: Number(holder.slice(colon + 1)) };
}

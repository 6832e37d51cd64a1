import { crc32 } from 'node:zlib';
import { type FastdfsClient, FastdfsError, type RemoteFileInfo } from '@stevedore/fastdfs';
import type { ServerAddress } from '@stevedore/protocol';
import { type FileRow, isStoreError, type ReadableStaging, StoreError } from '@stevedore/staging';
import { corrupt, storageError } from './failures.js';
import type { LargeSource } from './large-reader.js';

/**
 * Downloads from FastDFS: from any storage first, then from one storage after another if the bytes
 * are wrong. Skips copies that are known to be damaged.
 */

/** Aborts the read, if given. */
export type Signal = AbortSignal | undefined;

/** Where the bytes of a file are in FastDFS. */
export interface RemoteBytes {
  readonly fileId: string;
  /** Where the content begins in that file; 0 unless it is a slice. */
  readonly offset: number;
  readonly size: number;
  /** Undefined if it is not certain (appender files change). */
  readonly crc32: number | undefined;
}

interface Holder {
  /** `host:port` */
  readonly holder: string;
  readonly storage: ServerAddress;
}

export class Downloads {
  readonly #client: FastdfsClient;
  readonly #staging: Pick<ReadableStaging, 'local' | 'quarantine'>;

  constructor(client: FastdfsClient, staging: Pick<ReadableStaging, 'local' | 'quarantine'>) {
    this.#client = client;
    this.#staging = staging;
  }

  async info(fileId: string, signal: Signal): Promise<RemoteFileInfo> {
    try {
      return await this.#client.info(fileId, signal ? { signal } : {});
    } catch (error) {
      throw storageError(error, fileId);
    }
  }

  async exists(fileId: string): Promise<boolean> {
    try {
      await this.info(fileId, undefined);
      return true;
    } catch (error) {
      if (isStoreError(error, 'not_found')) return false;
      throw error;
    }
  }

  /** `isOwn`: this store gave the file to FastDFS; if it is gone there, that is `corrupt`. */
  async range(
    fileId: string,
    offset: number,
    length: number,
    signal?: AbortSignal,
    { storage, isOwn = false }: { readonly storage?: ServerAddress; readonly isOwn?: boolean } = {},
  ): Promise<Buffer> {
    try {
      return await this.#client.downloadBytes(fileId, { offset, length, signal, storage });
    } catch (error) {
      const failure = storageError(error, fileId);
      throw isOwn ? ofOwnFile(failure, fileId) : failure;
    }
  }

  /** The whole file, checked against its CRC-32. `row`: its row, if it is a file of this store. */
  async whole(file: RemoteBytes, signal: Signal, row?: FileRow): Promise<Buffer> {
    const { fileId, offset, size, crc32: expected } = file;
    const isSound = (bytes: Buffer) =>
      bytes.length === size && (expected === undefined || crc32(bytes) === expected);
    if (this.#badHolders(row).length === 0) {
      const bytes = await this.range(fileId, offset, size, signal, { isOwn: row !== undefined });
      if (isSound(bytes)) return bytes;
    }
    for (const { holder, storage } of await this.#holders(fileId, signal)) {
      if (this.#badHolders(row).includes(holder)) continue;
      const bytes = await this.range(fileId, offset, size, signal, { storage }).catch(() => null);
      signal?.throwIfAborted();
      if (bytes && isSound(bytes)) return bytes;
      if (bytes && row) this.#staging.local.noteDamage(row, 'trunk', holder);
    }
    throw corrupt(`${fileId} (${size} bytes from ${offset})`);
  }

  /** The sources of a large file, in the order in which to try them. */
  async *sources(
    { fileId, offset }: Pick<RemoteBytes, 'fileId' | 'offset'>,
    signal: Signal,
    row?: FileRow,
  ): AsyncGenerator<LargeSource> {
    const from = (storage?: ServerAddress) => (start: number, length: number) =>
      this.range(fileId, offset + start, length, signal, storage && { storage });
    if (this.#badHolders(row).length === 0) yield { read: from(), onDamage: () => undefined };
    for (const { holder, storage } of await this.#holders(fileId, signal)) {
      if (this.#badHolders(row).includes(holder)) continue;
      const onDamage = () => row && this.#staging.local.noteDamage(row, 'trunk', holder);
      yield { read: from(storage), onDamage };
    }
  }

  #badHolders(row: FileRow | undefined): readonly string[] {
    return row ? this.#staging.quarantine.holders(row.key) : [];
  }

  /** Every storage that may have the file; none if no tracker answers. */
  async #holders(fileId: string, signal: Signal): Promise<Holder[]> {
    try {
      const found = await this.#client.locateAll(fileId, signal ? { signal } : {});
      return found.map(({ address, port }) => {
        const holder = address.includes(':') ? `[${address}]:${port}` : `${address}:${port}`;
        return { holder, storage: { address, port } };
      });
    } catch {
      return [];
    }
  }
}

function ofOwnFile(failure: unknown, fileId: string): unknown {
  if (!isStoreError(failure, 'not_found')) return failure;
  const { cause } = failure;
  // Only a storage can say that a file is gone; trackers know only storages.
  if (cause instanceof FastdfsError && cause.code === 'unknown_group') {
    return new StoreError('storage_unavailable', cause.message, { cause, retryable: true });
  }
  return new StoreError('corrupt', `FastDFS no longer has ${fileId}`, { cause: failure });
}

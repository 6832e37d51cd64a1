import { crc32 } from 'node:zlib';
import { type FastdfsClient, FastdfsError } from '@stevedore/fastdfs';
import type { ServerAddress } from '@stevedore/protocol';
import { type FileRow, isStoreError, type ReadableStaging, StoreError } from '@stevedore/staging';
import { corrupt, storageError } from './failures.js';
import type { LargeSource } from './large-reader.js';

/**
 * Downloads from FastDFS: first from any storage and, if the bytes are wrong, from one storage
 * after another. Copies that are known to be damaged are skipped.
 */

/** Ends a read, if there is one. */
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

  async range(
    fileId: string,
    offset: number,
    length: number,
    signal?: AbortSignal,
    storage?: ServerAddress,
  ): Promise<Buffer> {
    try {
      return await this.#client.downloadBytes(fileId, { offset, length, signal, storage });
    } catch (error) {
      throw storageError(error, fileId);
    }
  }

  /** The whole file, checked against its CRC-32. `row`: it is a file of this store. */
  async whole(file: RemoteBytes, signal: Signal, row?: FileRow): Promise<Buffer> {
    const { fileId, offset, size, crc32: expected } = file;
    const isSound = (bytes: Buffer) =>
      bytes.length === size && (expected === undefined || crc32(bytes) === expected);
    if (this.#badHolders(row).length === 0) {
      const bytes = await this.range(fileId, offset, size, signal);
      if (isSound(bytes)) return bytes;
    }
    for (const { holder, storage } of await this.#holders(fileId, signal)) {
      if (this.#badHolders(row).includes(holder)) continue;
      const bytes = await this.range(fileId, offset, size, signal, storage).catch(() => null);
      signal?.throwIfAborted();
      if (bytes && isSound(bytes)) return bytes;
      if (bytes && row) this.#staging.local.noteDamage(row, 'trunk', holder);
    }
    throw corrupt(`${fileId} (${size} bytes from ${offset})`);
  }

  /** FastDFS was given this file to keep, so it must be there. */
  async own(fileId: string, download: Promise<Buffer>): Promise<Buffer> {
    try {
      return await download;
    } catch (error) {
      if (!isStoreError(error, 'not_found')) throw error;
      const { cause } = error;
      // Only a storage can say that a file is gone; a tracker only knows storages.
      if (cause instanceof FastdfsError && cause.code === 'unknown_group') {
        throw new StoreError('storage_unavailable', cause.message, { cause, retryable: true });
      }
      throw new StoreError('corrupt', `FastDFS no longer has ${fileId}`, { cause: error });
    }
  }

  /** Sources of a large file, in the order in which to try them. */
  async *sources(
    { fileId, offset }: Pick<RemoteBytes, 'fileId' | 'offset'>,
    signal: Signal,
    row?: FileRow,
  ): AsyncGenerator<LargeSource> {
    const from = (storage?: ServerAddress) => (start: number, length: number) =>
      this.range(fileId, offset + start, length, signal, storage);
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

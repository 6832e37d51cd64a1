import { crc32 } from 'node:zlib';
import type { FastdfsClient, RemoteFileInfo } from '@stevedore/fastdfs';
import { addressText, type ServerAddress } from '@stevedore/protocol';
import {
  type FileRow,
  isStoreError,
  type ReadableStaging,
  type StoreError,
} from '@stevedore/staging';
import type { LocalPlace, RemoteBytes } from '../holders/place.js';
import { corrupt, isWithoutCopy, storageError, worse } from './failures.js';
import type { LargeSource } from './large-reader.js';
import type { MissingFiles } from './missing-files.js';
import type { Signal } from './stored-file.js';

/**
 * Downloads from FastDFS: from any storage first, then from one storage after another if the bytes
 * are wrong or missing. Skips copies that are known to be damaged.
 */

type Source = Omit<RemoteBytes, 'size' | 'crc32'>;

interface Storage {
  /** `host:port` */
  readonly name: string;
  readonly address: ServerAddress;
}

interface RangeOptions {
  readonly storage?: ServerAddress | undefined;
  readonly isKnown?: boolean | undefined;
}

export class Downloads {
  readonly missing: MissingFiles;
  readonly #client: FastdfsClient;

  constructor(client: FastdfsClient, missing: MissingFiles) {
    this.#client = client;
    this.missing = missing;
  }

  /** Of a file that no record names. */
  async info(fileId: string, signal: Signal): Promise<RemoteFileInfo> {
    try {
      return await this.#client.info(fileId, { signal });
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

  /** The error of reading a file that an earlier read found missing, unless it is back. */
  async lossOf(fileId: string): Promise<StoreError | undefined> {
    if (!this.missing.has(fileId)) return undefined;
    try {
      await this.#client.info(fileId, { computeCrc: false });
      this.missing.remove(fileId);
      return undefined;
    } catch (error) {
      const failure = storageError(error, fileId, true);
      if (isStoreError(failure, 'missing_in_fastdfs')) return failure;
      throw failure;
    }
  }

  /** As `lossOf`, unless this disk has a copy. */
  async lossOfRow(row: FileRow, staging: ReadableStaging): Promise<StoreError | undefined> {
    const { trunk } = row;
    // A large file that a read found missing is in the spool no more.
    const isHere = trunk?.kind !== 'whole' && staging.local.has(row);
    return trunk && !isHere ? this.lossOf(trunk.fileId) : undefined;
  }

  /** Part of a FastDFS file, not checked. */
  async range(
    fileId: string,
    offset: number,
    length: number,
    signal?: AbortSignal,
    { storage, isKnown }: RangeOptions = {},
  ): Promise<Buffer> {
    try {
      return await this.#client.downloadBytes(fileId, { offset, length, signal, storage });
    } catch (error) {
      throw storageError(error, fileId, isKnown);
    }
  }

  /**
   * The whole file in memory of its own, checked against its CRC-32. `known`: where a FileMap of this
   * machine has it.
   */
  async whole(file: RemoteBytes, signal: Signal, known?: LocalPlace): Promise<Buffer> {
    const { fileId, offset, size } = file;
    let failure: unknown;
    for await (const { read, onDamage, isAny } of this.sources(file, signal, known)) {
      try {
        const bytes = await read(0, size);
        const isSound = file.crc32 === undefined || crc32(bytes) === file.crc32;
        if (bytes.length === size && isSound) return bytes;
        onDamage();
        failure = worse(failure, corrupt(`${fileId} (${size} bytes from ${offset})`));
      } catch (error) {
        signal?.throwIfAborted();
        // No storage can be reached.
        if (isAny && !isWithoutCopy(error)) throw error;
        failure = worse(failure, error);
      }
    }
    throw failure ?? corrupt(fileId);
  }

  /** The sources of a file, in the order in which to try them. */
  async *sources(file: Source, signal: Signal, known?: LocalPlace): AsyncGenerator<LargeSource> {
    if (this.#damagedAt(known).length === 0) {
      const read = (start: number, length: number) =>
        this.range(file.fileId, file.offset + start, length, signal, { isKnown: file.isKnown });
      yield { read, onDamage: () => undefined, isAny: true };
    }
    // One storage after another, without those whose copy is known to be damaged.
    const { fileId, offset, isKnown } = file;
    for (const { name, address } of await this.#storages(fileId, signal, isKnown)) {
      if (this.#damagedAt(known).includes(name)) continue;
      const read = (start: number, length: number) =>
        this.range(fileId, offset + start, length, signal, { storage: address, isKnown });
      yield { read, onDamage: () => known?.staging.local.noteDamage(known.row, 'trunk', name) };
    }
  }

  #damagedAt(known: LocalPlace | undefined): readonly string[] {
    return known?.staging.quarantine.holders(known.row.key) ?? [];
  }

  /** Every storage that may have the file. */
  async #storages(fileId: string, signal: Signal, isKnown?: boolean): Promise<Storage[]> {
    try {
      const found = await this.#client.locateAll(fileId, { signal });
      return found.map(({ address, port }) => {
        return { name: addressText(address, port), address: { address, port } };
      });
    } catch (error) {
      throw storageError(error, fileId, isKnown);
    }
  }
}

import { Readable } from 'node:stream';
import { crc32 } from 'node:zlib';
import { type FastdfsClient, FastdfsError } from '@stevedore/fastdfs';
import { Status } from '@stevedore/protocol';
import {
  type FileRow,
  formatKey,
  isStoreError,
  type Staging,
  StoreError,
} from '@stevedore/staging';
import { CachedReader } from './cached-reader.js';
import { checkedChunks, corrupt } from './checked-stream.js';
import type { EntryGroup } from './trunk-directories.js';
import type { ByteRange } from './types.js';

/**
 * Reads a file from where its bytes are: the container, the cache, FastDFS. Small
 * files are read whole and held against their CRC-32 before a byte is given out.
 */

/** A file that only FastDFS knows. */
export interface RemoteFile {
  readonly fileId: string;
  /** Where the content begins in that file; 0 unless it is a slice. */
  readonly offset: number;
  readonly size: number;
  /** Undefined when it is not known for sure (appender files change). */
  readonly crc32: number | undefined;
  /** For a slice: the members of its affinity group around it. */
  readonly groupAround?: (maxBytes: number) => EntryGroup | undefined;
}

export interface ReaderOptions {
  readonly staging: Staging;
  readonly client: FastdfsClient;
  readonly cacheBytes: number;
  readonly cacheFilter: boolean;
  /** Bytes downloaded at a time for files of one affinity group; 0: every file alone. */
  readonly readAheadBytes: number;
  /** Larger files are streamed. */
  readonly smallFileBytes: number;
}

export class Reader {
  readonly #options: ReaderOptions;
  readonly #cache: CachedReader;

  constructor(options: ReaderOptions) {
    this.#options = options;
    this.#cache = new CachedReader(options);
  }

  cacheStats() {
    return this.#cache.stats();
  }

  forget(key: Buffer): void {
    this.#cache.forget(key);
  }

  /** A staged or merged file of this store. */
  async readRow(
    row: FileRow,
    range: ByteRange | undefined,
    signal: AbortSignal | undefined,
  ): Promise<Buffer | Readable> {
    if (row.size === 0) return Buffer.alloc(0);
    if (row.spooled > 0) return this.#readLarge(row, range, signal);
    try {
      return slice(await this.#readSmall(row, signal), range);
    } catch (error) {
      if (signal?.aborted) throw aborted(signal);
      // Merged, or moved to another trunk, since the row was looked up.
      const current = this.#options.staging.find(row.key);
      if (!current) throw notFound(formatKey(row.key));
      if (!isElsewhere(row, current)) throw error;
      return slice(await this.#readSmall(current, signal), range);
    }
  }

  async #readSmall(row: FileRow, signal: AbortSignal | undefined): Promise<Buffer> {
    const local = await this.#options.staging.read(row);
    if (local) return local;
    const { trunkFileId, trunkOffset, size } = row;
    if (trunkFileId === null || trunkOffset === null) {
      throw new StoreError('corrupt', `${formatKey(row.key)} is neither staged nor merged`);
    }
    const file = { fileId: trunkFileId, offset: trunkOffset, size, crc32: row.crc32 };
    const source = {
      trunkFileId,
      readPart: (from: number, bytes: number, stop: AbortSignal) =>
        this.#own(trunkFileId, this.readRange(trunkFileId, from, bytes, stop)),
      readAlone: (stop: AbortSignal) => this.#own(trunkFileId, this.#download(file, stop)),
    };
    return this.#cache.readRow(row, source, signal);
  }

  async readRemote(
    file: RemoteFile,
    range: ByteRange | undefined,
    signal: AbortSignal | undefined,
  ): Promise<Buffer | Readable> {
    if (file.size === 0) return Buffer.alloc(0);
    if (file.size > this.#options.smallFileBytes) return this.#streamRemote(file, range, signal);
    try {
      return slice(await this.#readSmallRemote(file, signal), range);
    } catch (error) {
      throw signal?.aborted ? aborted(signal) : error;
    }
  }

  #readSmallRemote(file: RemoteFile, signal: AbortSignal | undefined): Promise<Buffer> {
    // A file whose CRC-32 is not fixed may change: it is never kept.
    if (file.crc32 === undefined) return this.#download(file, signal);
    const source = {
      trunkFileId: file.fileId,
      readPart: (from: number, bytes: number, stop: AbortSignal) =>
        this.readRange(file.fileId, from, bytes, stop),
      readAlone: (stop: AbortSignal) => this.#download(file, stop),
    };
    return this.#cache.readRemote(file.offset, source, signal, file.groupAround);
  }

  /** Bytes of any FastDFS file. */
  async readRange(
    fileId: string,
    offset: number,
    length: number,
    signal?: AbortSignal,
  ): Promise<Buffer> {
    try {
      return await this.#options.client.downloadBytes(fileId, {
        offset,
        length,
        ...(signal ? { signal } : {}),
      });
    } catch (error) {
      throw storageError(error, fileId);
    }
  }

  async #readLarge(
    row: FileRow,
    range: ByteRange | undefined,
    signal: AbortSignal | undefined,
  ): Promise<Readable> {
    const { staging } = this.#options;
    if (staging.isLocal(row)) {
      return Readable.from(staging.readSpooled(row, range), {
        objectMode: false,
      });
    }
    const current = row.trunkFileId === null ? staging.find(row.key) : row;
    if (current?.trunkFileId == null) throw notFound(formatKey(row.key));
    const { size, crc32: crc } = row;
    return this.#streamRemote(
      { fileId: current.trunkFileId, offset: 0, size, crc32: crc },
      range,
      signal,
    );
  }

  async #streamRemote(
    file: RemoteFile,
    range: ByteRange | undefined,
    signal: AbortSignal | undefined,
  ): Promise<Readable> {
    const { start, end } = range ?? { start: 0, end: file.size - 1 };
    const length = end - start + 1;
    try {
      const { stream } = await this.#options.client.download(file.fileId, {
        offset: file.offset + start,
        length,
        ...(signal ? { signal } : {}),
      });
      if (length !== file.size || file.crc32 === undefined) return stream;
      const expected = {
        size: file.size,
        crc32: file.crc32,
        name: file.fileId,
      };
      return Readable.from(checkedChunks(stream, expected), {
        objectMode: false,
      });
    } catch (error) {
      throw storageError(error, file.fileId);
    }
  }

  /** What FastDFS was given to keep must be there. */
  async #own(fileId: string, download: Promise<Buffer>): Promise<Buffer> {
    try {
      return await download;
    } catch (error) {
      if (!isStoreError(error, 'not_found')) throw error;
      // Only a storage can say that a file is gone; trackers know storages.
      if (error.cause instanceof FastdfsError && error.cause.code === 'unknown_group') {
        throw new StoreError('storage_unavailable', error.cause.message, {
          cause: error.cause,
          retryable: true,
        });
      }
      throw new StoreError('corrupt', `FastDFS no longer has ${fileId}`, { cause: error });
    }
  }

  async #download(
    { fileId, offset, size, crc32: expected }: RemoteFile,
    signal?: AbortSignal,
  ): Promise<Buffer> {
    const bytes = await this.readRange(fileId, offset, size, signal);
    if (bytes.length === size && (expected === undefined || crc32(bytes) === expected))
      return bytes;
    throw corrupt(`${fileId} (${size} bytes from ${offset})`);
  }
}

const NOT_THERE: ReadonlySet<string> = new Set(['not_found', 'unknown_group']);

export function notFound(id: string, cause?: unknown): StoreError {
  return new StoreError('not_found', `there is no file ${id}`, { cause });
}

/** A failure of FastDFS in the store's terms. */
export function storageError(error: unknown, fileId: string): unknown {
  if (!(error instanceof FastdfsError)) return error;
  // A storage refuses a name that it cannot have given as invalid.
  if (NOT_THERE.has(error.code) || error.status === Status.invalid) return notFound(fileId, error);
  if (error.code === 'aborted')
    return new StoreError('aborted', 'the read was aborted', { cause: error });
  return new StoreError(
    'storage_unavailable',
    `FastDFS could not be asked for ${fileId}: ${error.message}`,
    { cause: error, retryable: true },
  );
}

function aborted(signal: AbortSignal): StoreError {
  return new StoreError('aborted', 'the read was aborted', { cause: signal.reason });
}

function isElsewhere(row: FileRow, current: FileRow): boolean {
  return (
    row.segment !== current.segment ||
    row.position !== current.position ||
    row.trunk !== current.trunk
  );
}

function slice(bytes: Buffer, range: ByteRange | undefined): Buffer {
  return range ? bytes.subarray(range.start, range.end + 1) : bytes;
}

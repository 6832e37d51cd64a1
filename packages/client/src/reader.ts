import type { Readable } from 'node:stream';
import { crc32 } from 'node:zlib';
import { type FastdfsClient, FastdfsError } from '@stevedore/fastdfs';
import { type ServerAddress, Status } from '@stevedore/protocol';
import {
  type FileRow,
  formatKey,
  isStoreError,
  type Staging,
  StoreError,
} from '@stevedore/staging';
import { LRUCache } from 'lru-cache';
import { CachedReader } from './cached-reader.js';
import { corrupt } from './corrupt.js';
import { type HotFile, HotFiles } from './hot-files.js';
import { type LargeSource, readLarge } from './large-reader.js';
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

/** Memory for checksums of blocks. */
const MAX_BLOCK_LIST_BYTES = 16 * 2 ** 20;

interface Holder {
  /** `host:port` */
  readonly holder: string;
  readonly storage: ServerAddress;
}

export class Reader {
  readonly #options: ReaderOptions;
  readonly #cache: CachedReader;
  /** None where the cache is switched off. */
  readonly #hot: HotFiles | undefined;
  /** Checksums of large files that other stores or programs stored. */
  readonly #blocks = new LRUCache<string, Buffer>({
    maxSize: MAX_BLOCK_LIST_BYTES,
    sizeCalculation: (list) => list.length + 1,
  });

  constructor(options: ReaderOptions) {
    this.#options = options;
    if (options.cacheBytes > 0) this.#hot = new HotFiles();
    this.#cache = new CachedReader(options);
  }

  cacheStats() {
    return this.#cache.stats();
  }

  /** A file whose bytes are in memory; undefined too for one whose time is over. */
  hot(key: string, now: number): HotFile | undefined {
    const file = this.#hot?.get(key);
    return file && file.expiresAt > now ? file : undefined;
  }

  forget(key: Buffer): void {
    this.#hot?.forget(formatKey(key));
    this.#cache.forget(key);
  }

  forgetRemote(fileId: string, offset: number): void {
    this.#cache.forgetRemote(fileId, offset);
  }

  /** A staged or merged file of this store. */
  async readRow(
    row: FileRow,
    range: ByteRange | undefined,
    signal: AbortSignal | undefined,
  ): Promise<Buffer | Readable> {
    if (row.size === 0) return Buffer.alloc(0);
    if (row.local.at !== 'container') return this.#readLargeRow(row, range, signal);
    try {
      return slice(await this.#readSmall(row, signal), range);
    } catch (error) {
      if (signal?.aborted) throw aborted(signal);
      // Merged, or moved to another trunk, since the row was looked up.
      const current = this.#options.staging.fileMap.find(row.key);
      if (!current) throw notFound(formatKey(row.key));
      if (!isElsewhere(row, current)) throw error;
      return slice(await this.#readSmall(current, signal), range);
    }
  }

  async #readSmall(row: FileRow, signal: AbortSignal | undefined): Promise<Buffer> {
    const { staging } = this.#options;
    const name = formatKey(row.key);
    const hot = this.#hot?.get(name);
    if (hot) return hot.bytes;
    const local = await staging.local.read(row);
    if (local) {
      if (!this.#hot) return local;
      const expiresAt = row.expiresAt ?? Number.POSITIVE_INFINITY;
      return this.#hot.noteRead(
        name,
        local,
        expiresAt,
        () => staging.fileMap.find(row.key) !== undefined,
      );
    }
    const { trunk, size } = row;
    if (!trunk) throw new StoreError('corrupt', `${name} is neither staged nor merged`);
    const { fileId, offset } = trunk;
    const file = { fileId, offset, size, crc32: row.crc32 };
    const source = {
      trunkFileId: fileId,
      readPart: (from: number, bytes: number, stop: AbortSignal) =>
        this.#own(fileId, this.readRange(fileId, from, bytes, stop)),
      readAlone: (stop: AbortSignal) => this.#own(fileId, this.#downloadRow(row, file, stop)),
    };
    return this.#cache.readRow(row, source, signal);
  }

  async readRemote(
    file: RemoteFile,
    range: ByteRange | undefined,
    signal: AbortSignal | undefined,
  ): Promise<Buffer | Readable> {
    if (file.size === 0) return Buffer.alloc(0);
    if (file.size > this.#options.smallFileBytes) return this.#readLargeRemote(file, range, signal);
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
    storage?: ServerAddress,
  ): Promise<Buffer> {
    try {
      return await this.#options.client.downloadBytes(fileId, { offset, length, signal, storage });
    } catch (error) {
      throw storageError(error, fileId);
    }
  }

  #readLargeRow(
    row: FileRow,
    range: ByteRange | undefined,
    signal: AbortSignal | undefined,
  ): Promise<Readable> {
    const { staging } = this.#options;
    const { size, crc32: crc } = row;
    const sources = () => this.#sourcesOfRow(row, signal);
    return readLarge(
      {
        ...{ name: formatKey(row.key), size, crc32: crc, sources },
        blocks: staging.local.blocksOf(row),
        keepBlocks: (list) => staging.local.keepBlocks(row, list),
      },
      range,
    );
  }

  async *#sourcesOfRow(row: FileRow, signal: AbortSignal | undefined): AsyncGenerator<LargeSource> {
    const { staging } = this.#options;
    if (staging.local.has(row)) {
      yield {
        read: (start, length) =>
          collect(staging.local.readSpooled(row, { start, end: start + length - 1 })),
        onDamage: () => staging.local.noteDamage(row, 'spool'),
      };
    }
    // It may have been stored since it was looked up.
    if (!staging.local.has(row)) await staging.local.takeBack(row.key);
    const current = staging.fileMap.find(row.key);
    if (!current) throw notFound(formatKey(row.key));
    if (!current.trunk) return;
    const { fileId, offset } = current.trunk;
    const bad = staging.quarantine.holders(row.key);
    if (bad.length === 0) yield this.#remoteSource(fileId, offset, signal);
    for (const { holder, storage } of await this.#holders(fileId, signal)) {
      if (staging.quarantine.holders(row.key).includes(holder)) continue;
      const onDamage = () => staging.local.noteDamage(current, 'trunk', holder);
      yield { ...this.#remoteSource(fileId, offset, signal, storage), onDamage };
    }
  }

  #remoteSource(
    fileId: string,
    offset: number,
    signal: AbortSignal | undefined,
    storage?: ServerAddress,
  ): LargeSource {
    return {
      read: (start, length) => this.readRange(fileId, offset + start, length, signal, storage),
      onDamage: () => undefined,
    };
  }

  /** Every storage that may have the file; none when no tracker tells. */
  async #holders(fileId: string, signal: AbortSignal | undefined): Promise<Holder[]> {
    try {
      const found = await this.#options.client.locateAll(fileId, signal ? { signal } : {});
      return found.map(({ address, port }) => {
        const holder = address.includes(':') ? `[${address}]:${port}` : `${address}:${port}`;
        return { holder, storage: { address, port } };
      });
    } catch {
      return [];
    }
  }

  async #readLargeRemote(
    file: RemoteFile,
    range: ByteRange | undefined,
    signal: AbortSignal | undefined,
  ): Promise<Readable> {
    const { fileId, offset, size, crc32: crc } = file;
    const name = `${fileId}@${offset}`;
    const client = this;
    async function* sources(): AsyncGenerator<LargeSource> {
      yield client.#remoteSource(fileId, offset, signal);
      for (const { storage } of await client.#holders(fileId, signal)) {
        yield client.#remoteSource(fileId, offset, signal, storage);
      }
    }
    const blocks = this.#blocks.get(name);
    const keepBlocks = (list: Buffer) => void this.#blocks.set(name, list);
    return readLarge({ name: fileId, size, crc32: crc, sources, blocks, keepBlocks }, range);
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

  /** A slice of this store: copies that are known to be damaged are not asked for. */
  #downloadRow(row: FileRow, file: RemoteFile, signal: AbortSignal): Promise<Buffer> {
    const { staging } = this.#options;
    const bad = staging.quarantine.holders(row.key);
    return this.#download(file, signal, {
      isKnown: bad.length > 0,
      isBad: (holder) => staging.quarantine.holders(row.key).includes(holder),
      onDamage: (holder) => staging.local.noteDamage(row, 'trunk', holder),
    });
  }

  /** From any storage; if its bytes are wrong, from the others one by one. */
  async #download(
    file: RemoteFile,
    signal?: AbortSignal,
    { isKnown, isBad, onDamage }: Suspicion = NO_SUSPICION,
  ): Promise<Buffer> {
    const { fileId, offset, size, crc32: expected } = file;
    const isSound = (bytes: Buffer) =>
      bytes.length === size && (expected === undefined || crc32(bytes) === expected);
    if (!isKnown) {
      const bytes = await this.readRange(fileId, offset, size, signal);
      if (isSound(bytes)) return bytes;
    }
    for (const { holder, storage } of await this.#holders(fileId, signal)) {
      if (isBad(holder)) continue;
      const bytes = await this.readRange(fileId, offset, size, signal, storage).catch(() => null);
      signal?.throwIfAborted();
      if (bytes && isSound(bytes)) return bytes;
      if (bytes) onDamage(holder);
    }
    throw corrupt(`${fileId} (${size} bytes from ${offset})`);
  }
}

/** Known damaged copies, and where a new one is reported. */
interface Suspicion {
  readonly isKnown: boolean;
  readonly isBad: (holder: string) => boolean;
  readonly onDamage: (holder: string) => void;
}

const NO_SUSPICION: Suspicion = { isKnown: false, isBad: () => false, onDamage: () => undefined };

async function collect(chunks: AsyncIterable<Buffer>): Promise<Buffer> {
  const collected: Buffer[] = [];
  for await (const chunk of chunks) collected.push(chunk);
  return collected.length === 1 ? collected[0]! : Buffer.concat(collected);
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
    row.local.segment !== current.local.segment ||
    row.local.position !== current.local.position ||
    row.trunk?.id !== current.trunk?.id
  );
}

function slice(bytes: Buffer, range: ByteRange | undefined): Buffer {
  return range ? bytes.subarray(range.start, range.end + 1) : bytes;
}

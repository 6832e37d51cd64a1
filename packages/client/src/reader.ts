import type { Readable } from 'node:stream';
import { FileCache, type Flight, loadGroup, type Member } from '@stevedore/cache';
import {
  blocksOf,
  type FileRow,
  formatKey,
  isMerged,
  isStoreError,
  learnBlocks,
  parseKey,
  type ReadableStaging,
  StoreError,
} from '@stevedore/staging';
import { LRUCache } from 'lru-cache';
import type { Downloads, RemoteBytes, Signal } from './downloads.js';
import { aborted, isWithoutCopy, notFound } from './failures.js';
import { type EntryGroup, keyInName } from './foreign-trunks.js';
import { readAll } from './http/answers.js';
import { type LargeSource, readLarge } from './large-reader.js';
import type { ByteRange, CachedFile } from './types.js';

/**
 * Reads a file from where its bytes are: memory, the container or FastDFS. Small files are read
 * whole and checked against their CRC-32 before a byte is returned. They stay in memory while there
 * is room, and so do uploads. As long as it pays off, the same ranged download includes siblings
 * of the same affinity group. Concurrent misses share a read.
 */

/** A file that only FastDFS knows. */
export interface RemoteFile extends RemoteBytes {
  /** Key of a file that the map locates; the keys of the files beside it are in the trunk's directory. */
  readonly name?: string;
  /** For a slice: the members of its affinity group around it. */
  readonly groupAround?: (maxBytes: number) => EntryGroup | undefined;
}

export interface ReaderOptions {
  readonly cacheBytes: number;
  readonly cacheFilter: boolean;
  /** Bytes to download at once for files of one affinity group; 0 reads every file alone. */
  readonly readAheadBytes: number;
  /** Larger files are streamed. */
  readonly smallFileBytes: number;
}

/** How to download a small file and, if it has one, its group. */
interface Source {
  readonly fileId: string;
  readonly part: (offset: number, bytes: number, signal: Signal) => Promise<Buffer>;
  /** The file alone, checked against its CRC-32. */
  readonly alone: (signal: Signal) => Promise<Buffer>;
  readonly group: () => { members: readonly Member[]; asked: number } | undefined;
}

/** Memory for block checksums. */
const MAX_BLOCK_LIST_BYTES = 16 * 2 ** 20;
/** Share of the cache for files that were read ahead and not requested yet. */
const AHEAD_SHARE = 0.25;
/** How often a file may move while it is read. */
const MAX_MOVES = 3;
/** Group members considered on either side. */
const MAX_ADJACENT = 64;

export class Reader {
  readonly cache: FileCache;
  readonly #staging: ReadableStaging;
  readonly #downloads: Downloads;
  readonly #options: ReaderOptions;
  readonly #isOwn: boolean;
  readonly #inMemory = new WeakMap<Buffer, CachedFile>();
  /** Checksums of large files that other stores or programs stored. */
  readonly #blocks = new LRUCache<string, Buffer>({
    maxSize: MAX_BLOCK_LIST_BYTES,
    sizeCalculation: (list) => list.length + 1,
  });

  /** `sharing`: for files that another process owns, the reader whose cache they share. */
  constructor(
    staging: ReadableStaging,
    downloads: Downloads,
    options: ReaderOptions,
    sharing?: Reader,
  ) {
    this.#staging = staging;
    this.#downloads = downloads;
    this.#options = options;
    this.#isOwn = sharing === undefined;
    this.cache =
      sharing?.cache ??
      new FileCache({
        maxBytes: options.cacheBytes,
        filter: options.cacheFilter,
        aheadShare: options.readAheadBytes > 0 ? AHEAD_SHARE : 0,
      });
  }

  /** The file if its bytes are in memory and it has not expired. */
  inMemory(
    key: string,
    now: number,
    known?: { readonly expiresAt?: Date | number | undefined },
  ): CachedFile | undefined {
    const bytes = this.cache.find(key);
    if (!bytes) return undefined;
    if (!this.isAlive(key)) {
      this.cache.delete(key);
      return undefined;
    }
    let file = this.#inMemory.get(bytes);
    if (!file) {
      const found = known ?? this.#staging.fileMap.find(parseKey(key)!);
      if (!found) return undefined;
      file = { key, bytes, expiresAt: Number(found.expiresAt ?? Number.POSITIVE_INFINITY) };
      this.#inMemory.set(bytes, file);
    }
    return file.expiresAt > now ? file : undefined;
  }

  /** False once another process has deleted its file. Own deletions reach the cache directly. */
  isAlive(key: string): boolean {
    return this.#isOwn || this.#staging.fileMap.isAlive(parseKey(key)!);
  }

  forget(key: Buffer): void {
    this.cache.delete(formatKey(key));
  }

  forgetRemote(fileId: string, offset: number): void {
    this.cache.delete(remoteId(fileId, offset));
  }

  /** A whole small file, from memory or this disk; undefined if it takes time to read it. */
  readRowNow(row: FileRow): Buffer | undefined {
    if (row.local.at !== 'container' || row.size === 0) return undefined;
    return this.cache.getNow(formatKey(row.key), () => this.#staging.local.readNow(row));
  }

  /** A staged or merged file of this store. */
  async readRow(
    row: FileRow,
    range: ByteRange | undefined,
    signal: Signal,
    moves = 0,
  ): Promise<Buffer | Readable> {
    if (row.size === 0) return Buffer.alloc(0);
    try {
      if (row.local.at !== 'container') return await this.#readLargeRow(row, range, signal);
      return slice(await this.#readSmallRow(row, signal), range);
    } catch (error) {
      if (signal?.aborted) throw aborted(signal.reason);
      const current = this.#staging.fileMap.find(row.key);
      if (!current) throw notFound(formatKey(row.key));
      // It was merged, or moved to another trunk, after the row was looked up.
      if (isElsewhere(row, current) && moves < MAX_MOVES) {
        return this.readRow(current, range, signal, moves + 1);
      }
      if (isStoreError(error, 'missing_in_fastdfs') && row.trunk)
        this.#downloads.missing.add(row.trunk.fileId);
      throw error;
    }
  }

  /** A file that only FastDFS knows. */
  async readRemote(
    file: RemoteFile,
    range: ByteRange | undefined,
    signal: Signal,
  ): Promise<Buffer | Readable> {
    if (file.size === 0) return Buffer.alloc(0);
    if (file.size > this.#options.smallFileBytes) return this.#readLargeRemote(file, range, signal);
    try {
      return slice(await this.#readSmallRemote(file, signal), range);
    } catch (error) {
      throw signal?.aborted ? aborted(signal.reason) : error;
    }
  }

  async #readSmallRow(row: FileRow, signal: Signal): Promise<Buffer> {
    const { local } = this.#staging;
    const name = formatKey(row.key);
    const download = (flight: Flight) => this.#download(this.#sourceOfRow(row), flight);
    // Start a download at once, so that concurrent reads of its group share it.
    const load =
      local.has(row) || !row.trunk
        ? async (flight: Flight) => (await local.read(row)) ?? download(flight)
        : download;
    // A load returns bytes or fails.
    return this.cache.find(name) ?? ((await this.cache.fetch(name, load, signal)) as Buffer);
  }

  #sourceOfRow(row: FileRow): Source {
    const { trunk, size } = row;
    if (!trunk) {
      throw new StoreError('corrupt', `${formatKey(row.key)} is neither staged nor merged`);
    }
    const { fileId, offset } = trunk;
    const file = { fileId, offset, size, crc32: row.crc32, isKnown: true };
    const downloads = this.#downloads;
    return {
      fileId,
      part: (from, count, stop) => downloads.range(fileId, from, count, stop, { isKnown: true }),
      alone: (stop) => downloads.whole(file, stop, row),
      group: () => this.#groupOfRow(row),
    };
  }

  #readSmallRemote(file: RemoteFile, signal: Signal): Promise<Buffer> {
    const { fileId, offset, name } = file;
    const idOf = (at: number, key: string) => (name === undefined ? remoteId(fileId, at) : key);
    // A file without a fixed CRC-32 may change, so it is not cached.
    if (file.crc32 === undefined) return this.#downloads.whole(file, signal);
    const source: Source = {
      fileId,
      part: (from, count, stop) =>
        this.#downloads.range(fileId, from, count, stop, { isKnown: file.isKnown }),
      alone: (stop) => this.#downloads.whole(file, stop),
      group: () => {
        const group = file.groupAround?.(this.#options.readAheadBytes);
        const members = group?.members.map((entry) => ({
          ...entry,
          id: idOf(entry.offset, keyInName(entry.name)),
          alive: true,
        }));
        return group && { members: members!, asked: group.asked };
      },
    };
    const load = (flight: Flight) => this.#download(source, flight);
    return this.cache.get(idOf(offset, name ?? ''), load, { signal }) as Promise<Buffer>;
  }

  #download(source: Source, flight: Flight): Promise<Buffer> {
    const maxBytes = this.#options.readAheadBytes;
    const group = maxBytes > 0 ? source.group() : undefined;
    return group ? this.#loadGroup(source, flight, group) : source.alone(flight.signal);
  }

  async #loadGroup(
    source: Source,
    flight: Flight,
    group: NonNullable<ReturnType<Source['group']>>,
  ): Promise<Buffer> {
    const maxBytes = this.#options.readAheadBytes;
    const read = (offset: number, bytes: number) => source.part(offset, bytes, flight.signal);
    const bytes = await loadGroup({
      ...group,
      cache: this.cache,
      flight,
      source: source.fileId,
      maxBytes,
      read,
    }).catch((error: unknown) => {
      if (!isWithoutCopy(error)) throw error;
    });
    return bytes ?? source.alone(flight.signal);
  }

  #groupOfRow(row: FileRow): ReturnType<Source['group']> {
    const { fileMap, local } = this.#staging;
    if (row.group === undefined || !isMerged(row)) return undefined;
    const rows = fileMap.groupAround(row, MAX_ADJACENT);
    const members = rows.map((each) => ({
      id: formatKey(each.key),
      offset: each.trunk.offset,
      size: each.size,
      crc32: each.crc32,
      alive: !local.has(each),
    }));
    return { members, asked: rows.findIndex((each) => each.key.equals(row.key)) };
  }

  #readLargeRow(row: FileRow, range: ByteRange | undefined, signal: Signal): Promise<Readable> {
    const { fileMap } = this.#staging;
    const { size, crc32 } = row;
    const sources = () => this.#sourcesOfRow(row, signal);
    const keepBlocks = (list: Buffer) => learnBlocks(fileMap, row, list);
    const file = { name: formatKey(row.key), size, crc32, sources, keepBlocks };
    return readLarge({ ...file, blocks: blocksOf(fileMap, row) }, range);
  }

  async *#sourcesOfRow(row: FileRow, signal: Signal): AsyncGenerator<LargeSource> {
    const { fileMap, local, spool } = this.#staging;
    if (local.has(row)) {
      yield {
        read: (start, length) =>
          readAll(spool.read(row.key, row, { start, end: start + length - 1 })),
        onDamage: () => local.noteDamage(row, 'spool'),
      };
    }
    // It may have been stored after it was looked up.
    if (!local.has(row)) await local.rollBackMove(row.key);
    const current = fileMap.find(row.key);
    if (!current) throw notFound(formatKey(row.key));
    const { trunk } = current;
    if (trunk) yield* this.#downloads.sources({ ...trunk, isKnown: true }, signal, current);
  }

  #readLargeRemote(
    file: RemoteFile,
    range: ByteRange | undefined,
    signal: Signal,
  ): Promise<Readable> {
    const { fileId, size, crc32 } = file;
    const id = remoteId(fileId, file.offset);
    const sources = () => this.#downloads.sources(file, signal);
    const blocks = this.#blocks.get(id);
    const keepBlocks = (list: Buffer) => void this.#blocks.set(id, list);
    return readLarge({ name: fileId, size, crc32, sources, blocks, keepBlocks }, range);
  }
}

function remoteId(fileId: string, offset: number): string {
  return `${fileId}@${offset}`;
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

import type { Readable } from 'node:stream';
import { FileCache, type Flight, type Load, loadGroup, type Member } from '@stevedore/cache';
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
import { copyOf } from '@stevedore/staging/shared-memory';
import { LRUCache } from 'lru-cache';
import type { Downloads, RemoteBytes, Signal } from './downloads.js';
import { aborted, changed, isWithoutCopy, notFound } from './failures.js';
import { type EntryGroup, keyInName } from './foreign-trunks.js';
import type { CachedFile } from './gateway-store.js';
import { readAll } from './http/answers.js';
import { type LargeSource, readLarge } from './large-reader.js';
import type { ByteRange } from './types.js';

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

/** Members of an affinity group, in the order of their offsets, and which of them is wanted. */
interface Group {
  readonly members: readonly Member[];
  readonly asked: number;
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
  readRowNow(row: FileRow, name: string): Buffer | undefined {
    if (row.local.at !== 'container' || row.size === 0) return undefined;
    const { local } = this.#staging;
    if (!local.has(row) && !this.cache.has(name)) return undefined;
    return this.cache.getNow(name, () => local.readNow(row));
  }

  /** A staged or merged file of this store. `name`: its key. `isOwn`: nobody else has the Buffer. */
  async readRow(
    row: FileRow,
    name: string,
    range: ByteRange | undefined,
    signal: Signal,
    isOwn = false,
    moves = 0,
  ): Promise<Buffer | Readable> {
    if (row.size === 0) return Buffer.alloc(0);
    try {
      if (row.local.at !== 'container') return await this.#readLargeRow(row, range, signal);
      return slice(await this.#readSmallRow(row, name, signal, isOwn), range);
    } catch (error) {
      if (signal?.aborted) throw aborted(signal.reason);
      const current = this.#staging.fileMap.find(row.key);
      if (!current) throw notFound(name);
      // It was merged, or moved to another trunk, after the row was looked up.
      if (isElsewhere(row, current) && moves < MAX_MOVES) {
        return this.readRow(current, name, range, signal, isOwn, moves + 1);
      }
      if (isStoreError(error, 'missing_in_fastdfs') && row.trunk)
        this.#downloads.missing.add(row.trunk.fileId);
      throw error;
    }
  }

  /** A file that only FastDFS knows. `isOwn`: nobody else has the Buffer. */
  async readRemote(
    file: RemoteFile,
    range: ByteRange | undefined,
    signal: Signal,
    isOwn = false,
  ): Promise<Buffer | Readable> {
    if (file.size === 0) return Buffer.alloc(0);
    try {
      if (file.size > this.#options.smallFileBytes) {
        return await this.#readLargeRemote(file, range, signal);
      }
      return slice(await this.#readSmallRemote(file, signal, isOwn), range);
    } catch (error) {
      if (signal?.aborted) throw aborted(signal.reason);
      if (file.crc32 !== undefined || !isWithoutCopy(error)) throw error;
      // Unless it is gone.
      await this.#downloads.info(file.fileId, signal);
      throw changed(file.fileId, error);
    }
  }

  #readSmallRow(
    row: FileRow,
    name: string,
    signal: Signal,
    isOwn: boolean,
  ): Buffer | Promise<Buffer> {
    const { local } = this.#staging;
    const download = (flight: Flight) => this.#downloadRow(row, flight);
    // Start a download at once, so that concurrent reads of its group share it.
    const load =
      local.has(row) || !row.trunk
        ? async (flight: Flight) => (await local.read(row)) ?? download(flight)
        : download;
    return this.#cached(name, load, signal, isOwn);
  }

  /** From memory, else from `load`, whose memory must be new. */
  #cached(id: string, load: Load, signal: Signal, isOwn: boolean): Buffer | Promise<Buffer> {
    const found = this.cache.find(id);
    // A load returns bytes or fails.
    if (!found) return this.cache.fetch(id, load, signal, isOwn) as Promise<Buffer>;
    return isOwn ? copyOf(found) : found;
  }

  #downloadRow(row: FileRow, flight: Flight): Promise<Buffer> {
    const { trunk, size, crc32 } = row;
    if (!trunk) {
      throw new StoreError('corrupt', `${formatKey(row.key)} is neither staged nor merged`);
    }
    const { fileId, offset } = trunk;
    const file = { fileId, offset, size, crc32, isKnown: true };
    const group = this.#readsAhead ? this.#groupOfRow(row) : undefined;
    return group
      ? this.#loadGroup(file, flight, group, row)
      : this.#downloads.whole(file, flight.signal, row);
  }

  #readSmallRemote(file: RemoteFile, signal: Signal, isOwn: boolean): Buffer | Promise<Buffer> {
    const { fileId, offset, name } = file;
    const idOf = (at: number, key: string) => (name === undefined ? remoteId(fileId, at) : key);
    // A file without a fixed CRC-32 may change, so it is not cached.
    if (file.crc32 === undefined) return this.#downloads.whole(file, signal);
    const load = (flight: Flight) => {
      const group = this.#readsAhead ? file.groupAround?.(this.#options.readAheadBytes) : undefined;
      if (!group) return this.#downloads.whole(file, flight.signal);
      const members = group.members.map((entry) => ({
        ...entry,
        id: idOf(entry.offset, keyInName(entry.name)),
        alive: true,
      }));
      return this.#loadGroup(file, flight, { members, asked: group.asked });
    };
    signal?.throwIfAborted();
    return this.#cached(idOf(offset, name ?? ''), load, signal, isOwn);
  }

  get #readsAhead(): boolean {
    return this.#options.readAheadBytes > 0;
  }

  /** The file with members of its group beside it, or alone. */
  async #loadGroup(
    file: RemoteBytes,
    flight: Flight,
    group: Group,
    row?: FileRow,
  ): Promise<Buffer> {
    const { fileId, isKnown } = file;
    const { signal } = flight;
    const read = (offset: number, bytes: number) =>
      this.#downloads.range(fileId, offset, bytes, signal, { isKnown });
    const bytes = await loadGroup({
      ...group,
      cache: this.cache,
      flight,
      source: fileId,
      maxBytes: this.#options.readAheadBytes,
      read,
    }).catch((error: unknown) => {
      if (!isWithoutCopy(error)) throw error;
    });
    return bytes ?? this.#downloads.whole(file, signal, row);
  }

  #groupOfRow(row: FileRow): Group | undefined {
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
    if (!local.has(row)) await local.rollBackMove(row.key);
    // It may have been stored since, and again or deleted while it was read.
    for (let tried: number | undefined; ; ) {
      const current = fileMap.find(row.key);
      if (!current) throw notFound(formatKey(row.key));
      const { trunk } = current;
      if (!trunk || trunk.id === tried) return;
      tried = trunk.id;
      yield* this.#downloads.sources({ ...trunk, isKnown: true }, signal, current);
    }
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

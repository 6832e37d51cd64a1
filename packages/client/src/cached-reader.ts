import {
  FileCache,
  type FileCacheStats,
  type Flight,
  loadGroup,
  type Member,
} from '@stevedore/cache';
import { type FileRow, formatKey, type Staging } from '@stevedore/staging';
import type { EntryGroup } from './trunk-directories.js';

/**
 * Small files of FastDFS in memory. A file that is missing is downloaded, with the
 * members of its affinity group that lie beside it in the trunk in the same ranged
 * download if that has paid so far: one round trip for all of them, against any storage.
 * Concurrent misses share a download.
 */

/** Of the cache, for what was downloaded along and not asked for yet. */
const AHEAD_SHARE = 0.25;
/** Members looked at on either side. */
const MAX_NEIGHBOURS = 64;

export interface CachedReaderOptions {
  readonly cacheBytes: number;
  readonly cacheFilter: boolean;
  /** Bytes downloaded at a time for a group; 0: every file alone. */
  readonly readAheadBytes: number;
  readonly staging: Staging;
}

/** Bytes of a FastDFS file. */
type ReadPart = (offset: number, bytes: number, signal: AbortSignal) => Promise<Buffer>;

/** How to read the file and, if it has one, its group. */
export interface Source {
  readonly trunkFileId: string;
  readonly readPart: ReadPart;
  /** The file alone, held against its CRC-32. */
  readonly readAlone: (signal: AbortSignal) => Promise<Buffer>;
}

interface Group {
  readonly members: readonly Member[];
  readonly asked: number;
}

export class CachedReader {
  readonly #options: CachedReaderOptions;
  readonly #cache: FileCache;

  constructor(options: CachedReaderOptions) {
    this.#options = options;
    this.#cache = new FileCache({
      maxBytes: options.cacheBytes,
      filter: options.cacheFilter,
      aheadShare: options.readAheadBytes > 0 ? AHEAD_SHARE : 0,
    });
  }

  stats(): FileCacheStats {
    return this.#cache.stats();
  }

  forget(key: Buffer): void {
    this.#cache.delete(formatKey(key));
  }

  forgetRemote(fileId: string, offset: number): void {
    this.#cache.delete(remoteId(fileId, offset));
  }

  /** A merged file of this store. */
  readRow(row: FileRow, source: Source, signal: AbortSignal | undefined): Promise<Buffer> {
    return this.#read(formatKey(row.key), source, signal, () => this.#groupOfRow(row));
  }

  /** A slice of a trunk that another store has packed, or a whole file. */
  readRemote(
    offset: number,
    source: Source,
    signal: AbortSignal | undefined,
    groupAround: ((maxBytes: number) => EntryGroup | undefined) | undefined,
  ): Promise<Buffer> {
    const id = (at: number): string => remoteId(source.trunkFileId, at);
    return this.#read(id(offset), source, signal, () => {
      const group = groupAround?.(this.#options.readAheadBytes);
      if (!group) return undefined;
      const members = group.members.map((entry) => ({
        ...entry,
        id: id(entry.offset),
        alive: true,
      }));
      return { members, asked: group.asked };
    });
  }

  async #read(
    id: string,
    source: Source,
    signal: AbortSignal | undefined,
    groupOf: () => Group | undefined,
  ): Promise<Buffer> {
    const load = async (flight: Flight): Promise<Buffer> =>
      (await this.#loadGroup(source, flight, groupOf)) ?? source.readAlone(flight.signal);
    const bytes = await this.#cache.get(id, load, { signal });
    // A load gives bytes or fails.
    return bytes!;
  }

  async #loadGroup(
    { trunkFileId, readPart }: Source,
    flight: Flight,
    groupOf: () => Group | undefined,
  ): Promise<Buffer | undefined> {
    const { readAheadBytes } = this.#options;
    const group = readAheadBytes > 0 ? groupOf() : undefined;
    if (!group) return undefined;
    return loadGroup({
      ...group,
      cache: this.#cache,
      flight,
      source: trunkFileId,
      maxBytes: readAheadBytes,
      read: (offset, bytes) => readPart(offset, bytes, flight.signal),
    });
  }

  #groupOfRow(row: FileRow): Group | undefined {
    const { staging } = this.#options;
    if (row.group === undefined || !row.trunk) return undefined;
    const rows = staging.fileMap.groupAround(row, MAX_NEIGHBOURS);
    const members = rows.map((each) => ({
      id: formatKey(each.key),
      offset: each.trunk!.offset,
      size: each.size,
      crc32: each.crc32,
      alive: !staging.local.has(each),
    }));
    return { members, asked: rows.findIndex((each) => each.key.equals(row.key)) };
  }
}

function remoteId(fileId: string, offset: number): string {
  return `${fileId}@${offset}`;
}

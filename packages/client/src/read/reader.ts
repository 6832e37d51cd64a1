import { Readable } from 'node:stream';
import { FileCache, type Flight, type Load, loadGroup, type Member } from '@stevedore/cache';
import { isTrunkId, parseFileId } from '@stevedore/protocol';
import {
  type FileRow,
  fileIdOf,
  formatKey,
  isMerged,
  isStoreError,
  StoreError,
} from '@stevedore/staging';
import { copyOf } from '@stevedore/staging/shared-memory';
import type { LocalPlace, PeerPlace, Place, RemoteBytes, RemotePlace } from '../holders/place.js';
import { type StoreOptions, tailBytesOf } from '../options.js';
import type { ByteRange, IdPending } from '../store/types.js';
import type { Downloads } from './downloads.js';
import { aborted, changed, isWithoutCopy, notFound } from './failures.js';
import { keyInName, TrunkDirectories } from './foreign-trunks.js';
import type { PendingIds } from './id-pending.js';
import { LargeFiles } from './large-files.js';
import type { Reads } from './reads.js';
import { lengthOf, type Reading, type Signal } from './stored-file.js';

/**
 * Reads a file from where its bytes are: memory, the container, FastDFS or another gateway. Small
 * files are read whole and checked against their CRC-32 before a byte is returned. They stay in
 * memory while there is room, and so do uploads. As long as it pays off, the same ranged download
 * includes siblings of the same affinity group. Concurrent misses share a read. A file that has moved
 * meanwhile is read where it is now. Every read is counted and published.
 */

/** Members of an affinity group, in the order of their offsets, and which of them is wanted. */
interface Group {
  readonly members: readonly Member[];
  readonly asked: number;
}

/** Share of the cache for files that were read ahead and not requested yet. */
const AHEAD_SHARE = 0.25;
/** How often a file may move while it is read. */
const MAX_MOVES = 3;
/** Group members considered on either side. */
const MAX_ADJACENT = 64;

export class Reader implements Reading<Place> {
  readonly cache: FileCache;
  readonly reads: Reads;
  readonly downloads: Downloads;
  readonly directories: TrunkDirectories;
  readonly #pendingIds: PendingIds;
  readonly #options: StoreOptions;
  readonly #large: LargeFiles;

  constructor(downloads: Downloads, reads: Reads, pendingIds: PendingIds, options: StoreOptions) {
    this.downloads = downloads;
    this.directories = new TrunkDirectories(downloads);
    this.#large = new LargeFiles(downloads);
    this.reads = reads;
    this.#pendingIds = pendingIds;
    this.#options = options;
    this.cache = new FileCache({
      maxBytes: options.cacheSize - tailBytesOf(options.cacheSize),
      filter: options.cacheFilter,
      aheadShare: options.readAhead > 0 ? AHEAD_SHARE : 0,
    });
  }

  forget(key: Buffer): void {
    this.cache.delete(formatKey(key));
  }

  forgetRemote(fileId: string, offset: number): void {
    this.cache.delete(remoteId(fileId, offset));
  }

  fileIdOf(place: Place): string | undefined {
    if (place.kind === 'local') return fileIdOf(place.row);
    return place.kind === 'remote' ? place.makeId?.() : undefined;
  }

  idPendingOf(place: Place): IdPending | undefined {
    return place.kind === 'local' ? this.#pendingIds.of(place.row, place.staging) : undefined;
  }

  read(
    place: Place,
    range: ByteRange | undefined,
    signal: Signal,
    isOwn: boolean,
  ): Promise<Buffer | Readable> {
    return this.reads.run(place.key, lengthOf(range, place.size), () =>
      this.#read(place, range, signal, isOwn),
    );
  }

  readNow(place: Place): Buffer | undefined {
    if (!this.reads.mayBeNow) return undefined;
    const bytes = this.#readNow(place);
    if (bytes) this.reads.count(bytes.length);
    return bytes;
  }

  #readNow(place: Place): Buffer | undefined {
    const { cache } = this;
    const { key, size } = place;
    if (place.kind === 'local') {
      const { row, staging } = place;
      if (row.local.at !== 'container' || size === 0) return undefined;
      if (!staging.local.has(row) && !cache.has(key!)) return undefined;
      return cache.getNow(key!, () => staging.local.readNow(row));
    }
    if (place.kind === 'peer' && place.bytes) {
      const { bytes, gateway } = place;
      return gateway ? (cache.getNow(key!, () => bytes) ?? bytes) : bytes;
    }
    const isCached = place.kind === 'peer' || place.isMapped;
    return isCached && cache.has(key!) ? cache.find(key!) : undefined;
  }

  async #read(
    place: Place,
    range: ByteRange | undefined,
    signal: Signal,
    isOwn: boolean,
    moves = 0,
  ): Promise<Buffer | Readable> {
    if (place.size === 0) return Buffer.alloc(0);
    try {
      switch (place.kind) {
        case 'local':
          return place.row.local.at === 'container'
            ? part(await this.#smallLocal(place, signal, isOwn), range)
            : await this.#large.readLocal(place, range, signal);
        case 'remote': {
          if (place.size <= this.#options.smallFileLimit) {
            return part(await this.#smallRemote(place, signal, isOwn), range);
          }
          const content = await this.#large.readRemote(place, range, signal);
          if (!place.now) return content;
          const chunks = this.#following(content, place, range, signal, isOwn);
          return Readable.from(chunks, { objectMode: false });
        }
        case 'peer':
          return await this.#readPeer(place, range, signal, isOwn);
      }
    } catch (error) {
      return this.#readOn(error, place, range, signal, isOwn, moves);
    }
  }

  /** Where the file is now, if that is elsewhere. */
  async #readOn(
    error: unknown,
    place: Place,
    range: ByteRange | undefined,
    signal: Signal,
    isOwn: boolean,
    moves: number,
  ): Promise<Buffer | Readable> {
    if (signal?.aborted) throw aborted(signal.reason);
    const now = await this.#placeNow(place, error, signal);
    if (now && moves < MAX_MOVES) return this.#read(now, range, signal, isOwn, moves + 1);
    const fileId = place.kind === 'local' ? place.row.trunk?.fileId : place.fileId;
    if (fileId !== undefined && isLoss(error)) this.downloads.missing.add(fileId);
    throw error;
  }

  /** Where a file is that could not be read here; undefined if it has not moved. */
  async #placeNow(place: Place, error: unknown, signal: Signal): Promise<Place | undefined> {
    if (place.kind === 'local') {
      const row = place.staging.fileMap.find(place.row.key);
      if (!row) throw notFound(place.key);
      return isElsewhere(place.row, row) ? { ...place, row } : undefined;
    }
    if (place.kind !== 'remote') return undefined;
    if (place.crc32 === undefined && isWithoutCopy(error)) {
      // Unless it is gone.
      await this.downloads.info(place.fileId, signal);
      throw changed(place.fileId, error);
    }
    return isLoss(error) ? place.now?.(error, signal) : undefined;
  }

  #smallLocal(place: LocalPlace, signal: Signal, isOwn: boolean): Buffer | Promise<Buffer> {
    const { row, staging, key } = place;
    const download = (flight: Flight) => this.#downloadLocal(place, flight);
    // Start a download at once, so that concurrent reads of its group share it.
    const load =
      staging.local.has(row) || !row.trunk
        ? async (flight: Flight) => (await staging.local.read(row)) ?? download(flight)
        : download;
    return this.#cached(key, load, signal, isOwn);
  }

  /** From memory, else from `load`, whose memory must be new. */
  #cached(id: string, load: Load, signal: Signal, isOwn: boolean): Buffer | Promise<Buffer> {
    const found = this.cache.find(id);
    // A load returns bytes or fails.
    if (!found) return this.cache.fetch(id, load, signal, isOwn) as Promise<Buffer>;
    return isOwn ? copyOf(found) : found;
  }

  #downloadLocal(place: LocalPlace, flight: Flight): Promise<Buffer> {
    const { trunk, size, crc32 } = place.row;
    if (!trunk) throw new StoreError('corrupt', `${place.key} is neither staged nor merged`);
    const { fileId, offset } = trunk;
    const file = { fileId, offset, size, crc32, isKnown: true };
    const group = this.#readsAhead ? groupOf(place) : undefined;
    return group
      ? this.#loadGroup(file, flight, group, place)
      : this.downloads.whole(file, flight.signal, place);
  }

  #smallRemote(place: RemotePlace, signal: Signal, isOwn: boolean): Buffer | Promise<Buffer> {
    const { fileId, offset, key, isMapped } = place;
    // A file without a fixed CRC-32 may change, so it is not cached.
    if (place.crc32 === undefined) return this.downloads.whole(place, signal);
    const idOf = (at: number, its: string) => (isMapped ? its : remoteId(fileId, at));
    const load = (flight: Flight) => {
      const group = this.#readsAhead ? this.#groupAround(place) : undefined;
      if (!group) return this.downloads.whole(place, flight.signal);
      const members = group.members.map((entry) => ({
        ...entry,
        id: idOf(entry.offset, keyInName(entry.name)),
        alive: true,
      }));
      return this.#loadGroup(place, flight, { members, asked: group.asked });
    };
    signal?.throwIfAborted();
    return this.#cached(idOf(offset, key ?? ''), load, signal, isOwn);
  }

  /** Of the files of a trunk whose directory was read. */
  #groupAround({ fileId, offset }: RemotePlace): ReturnType<TrunkDirectories['groupAround']> {
    const trunk = parseFileId(fileId);
    if (!trunk || !isTrunkId(trunk)) return undefined;
    return this.directories.groupAround({ trunk, offset }, this.#options.readAhead);
  }

  get #readsAhead(): boolean {
    return this.#options.readAhead > 0;
  }

  /** The file with members of its group beside it, or alone. */
  async #loadGroup(
    file: RemoteBytes,
    flight: Flight,
    group: Group,
    known?: LocalPlace,
  ): Promise<Buffer> {
    const { fileId, isKnown } = file;
    const { signal } = flight;
    const read = (offset: number, bytes: number) =>
      this.downloads.range(fileId, offset, bytes, signal, { isKnown });
    const bytes = await loadGroup({
      ...group,
      cache: this.cache,
      flight,
      source: fileId,
      maxBytes: this.#options.readAhead,
      read,
    }).catch((error: unknown) => {
      if (!isWithoutCopy(error)) throw error;
    });
    return bytes ?? this.downloads.whole(file, signal, known);
  }

  async #readPeer(
    { key, size, crc32, bytes, gateway }: PeerPlace,
    range: ByteRange | undefined,
    signal: Signal,
    isOwn: boolean,
  ): Promise<Buffer | Readable> {
    if (bytes || !gateway) return part(isOwn ? copyOf(bytes!) : bytes!, range);
    const file = { key, size, crc32 };
    // A small file is checked as a whole, whatever part is wanted.
    if (size <= this.#options.smallFileLimit) {
      const load = () => gateway.readWhole(file, undefined);
      return part(await this.#cached(key, load, signal, isOwn), range);
    }
    return range
      ? this.#large.readPeer(file, gateway, range, signal)
      : gateway.read(file, undefined, signal);
  }

  /** If a large file is moved while it is read, continues at its new place. */
  async *#following(
    content: Readable,
    place: RemotePlace,
    range: ByteRange | undefined,
    signal: Signal,
    isOwn: boolean,
  ): AsyncGenerator<Buffer, void> {
    let { start, end } = range ?? { start: 0, end: place.size - 1 };
    try {
      for await (const chunk of content as AsyncIterable<Buffer>) {
        start += chunk.length;
        yield chunk;
      }
    } catch (error) {
      if (!isLoss(error)) throw error;
      const rest = await this.#readOn(error, place, { start, end }, signal, isOwn, 0);
      if (Buffer.isBuffer(rest)) yield rest;
      else yield* rest;
    }
  }
}

function groupOf({ row, staging }: LocalPlace): Group | undefined {
  const { fileMap, local } = staging;
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

function part(bytes: Buffer, range: ByteRange | undefined): Buffer {
  return range ? bytes.subarray(range.start, range.end + 1) : bytes;
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

function isLoss(error: unknown): boolean {
  return isStoreError(error, 'missing_in_fastdfs');
}

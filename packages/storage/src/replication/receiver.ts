import { dirname, relative } from 'node:path';
import type { FileStat } from '@stevedore/disk';
import {
  decodeFields,
  type FileId,
  fileKind,
  isTrunkId,
  parseSliceId,
  Status,
  type SyncPart,
  type SyncTruncation,
} from '@stevedore/protocol';
import { type Payload, StatusError } from '@stevedore/wire';
import { cutting, writing } from '../files/changing-files.js';
import { MEMORY_BYTES } from '../files/incoming-file.js';
import { removeFile } from '../handlers/upload.js';
import { exists, ifThere, invalid, isNotFound, notFound } from '../refusals.js';
import type { StorageService } from '../service.js';
import type { Change } from './journal.js';
import type { LoggedName } from './log-record.js';
import type { StorageSession } from './members.js';

/**
 * Applies changes of other members. Any change can arrive twice, or after later changes of
 * the same file. For appenders and metadata the source's state wins, otherwise the newer one.
 * A deleted file does not come back. Status 17: it is here already. Status 2: the whole file
 * is needed.
 */

/** Longest accepted metadata or list of deleted slices. */
const MAX_BESIDE_BYTES = 16 * 1024 * 1024;

/** A whole file that another member sends. */
interface Sent {
  readonly atSeconds: number;
  readonly bytes: number;
  /** True if it replaces another state of the file. */
  readonly replaces: boolean;
  /** True if the sender is the file's source. */
  readonly isSource: boolean;
}

export class Receiver {
  readonly #service: StorageService;

  constructor(service: StorageService) {
    this.#service = service;
  }

  /** Receives a whole file; `replaces`: it replaces another state of the file. */
  async file(
    { id, part }: LoggedName,
    atSeconds: number,
    payload: Payload,
    replaces: boolean,
    session: StorageSession,
  ): Promise<void> {
    if (part !== 'file') return this.#beside(id, part, atSeconds, payload, session);
    // No file has the name of a slice.
    if (parseSliceId(id)) throw invalid('the name of a slice');
    if (this.#isDeleted(id, atSeconds)) return this.#drop(payload, replaces);
    const bytes = payload.remaining;
    const { store, storePaths, replication } = this.#service;
    await storePaths.roomFor(bytes, id.storePathIndex);
    // An existing appender stays: its later changes have records of their own.
    const stays = (stat: FileStat | undefined): boolean =>
      !replaces && stat !== undefined && (stat.size === bytes || fileKind(id) === 'appender');
    // A small file is checked only after its bytes have arrived, below.
    const isLarge = bytes > MEMORY_BYTES;
    if (isLarge && stays(await this.#statOf(store.pathOf(id)))) return this.#drop(payload, false);
    const isSource = replication.isSource(session.peer, id);
    const change = async (path: string): Promise<Change | undefined> => {
      if (this.#isDeleted(id, atSeconds)) return undefined;
      const stat = await this.#statOf(path);
      if (stays(stat)) throw exists('it is here already');
      if (stat && !this.#isOutdated(id, stat, { atSeconds, bytes, replaces, isSource })) {
        return undefined;
      }
      return this.#change(id, atSeconds, stat === undefined);
    };
    await storePaths
      .at(id.storePathIndex)
      .holding(bytes, () => store.receive(id, payload, Math.max(atSeconds, 0), change));
  }

  /** True if the sent file replaces the one here. */
  #isOutdated(id: FileId, stat: FileStat, { atSeconds, bytes, replaces, isSource }: Sent): boolean {
    if (replaces && fileKind(id) === 'appender') {
      if (isSource) return true;
      if (this.#service.identity.isSource(decodeFields(id.base).source)) return false;
    }
    if (stat.mtimeSeconds !== atSeconds) return stat.mtimeSeconds < atSeconds;
    // Within the same second the source's file wins, then the longer one.
    return isSource || stat.size < bytes;
  }

  /** Answers a sender that found the file here: status 17 if it is, status 2 if not. */
  async alreadyThere({ id, part }: LoggedName): Promise<void> {
    const { backend, store } = this.#service;
    const path = store.pathOf(id);
    const isThere = await (part === 'metadata' ? backend.hasMetadata(path) : backend.exists(path));
    throw new StatusError(isThere ? Status.exists : Status.notFound, id.name);
  }

  append(id: FileId, request: SyncPart, payload: Payload): Promise<void> {
    return this.#part(id, request, payload, (size, { offset, size: bytes }) => {
      if (size === offset) return;
      const status = size >= offset + bytes ? Status.exists : Status.notFound;
      throw new StatusError(status, `${size} bytes instead of ${offset}`);
    });
  }

  modify(id: FileId, request: SyncPart, payload: Payload): Promise<void> {
    return this.#part(id, request, payload, (size, { offset }) => {
      if (size < offset) throw notFound(`${size} bytes instead of ${offset} at least`);
    });
  }

  async truncate(id: FileId, { oldSize, newSize, atSeconds }: SyncTruncation): Promise<void> {
    const { store, changing, storePaths } = this.#service;
    this.#unlessDeleted(id, atSeconds);
    const path = store.pathOf(id);
    if (newSize > oldSize) await storePaths.roomFor(newSize - oldSize, id.storePathIndex);
    const change = this.#change(id, atSeconds);
    await changing.change({ path, name: id.name }, change, undefined, ({ size }) => {
      if (size !== oldSize) throw exists(`${size} bytes, not ${oldSize}`);
      return cutting(oldSize, newSize);
    });
  }

  /** Deletes a file, metadata or slice. A missing file is status 2, and recorded all the same. */
  async remove(
    { id, part }: LoggedName,
    atSeconds: number,
    session: StorageSession,
  ): Promise<void> {
    const { store, slices, metadata, replication } = this.#service;
    const path = store.pathOf(id);
    if (part === 'metadata') {
      const described = { path, name: id.name };
      const isSource = replication.isSource(session.peer, id);
      return metadata.receive(described, undefined, this.#change(id, atSeconds), isSource);
    }
    const change = this.#change(id, atSeconds);
    if (part === 'deleted slices') throw invalid('a list that stays');
    const slice = parseSliceId(id);
    if (slice) {
      return slices.receiveDeletion(id.name, slice, store.pathOf(slice.trunk), change);
    }
    // A slave can be deleted and stored again, and deletions can arrive late.
    const isYounger = async (): Promise<boolean> => {
      if (fileKind(id) !== 'slave') return false;
      const stat = await this.#statOf(path);
      // A file that appears from here on is not the deleted one.
      if (!stat) throw notFound(id.name);
      return stat.mtimeSeconds > atSeconds;
    };
    try {
      await removeFile(this.#service, id, change, isYounger);
    } catch (error) {
      const missing = isNotFound(error);
      const known = replication.tombstones.at(id.name) ?? -1;
      if (missing && known < atSeconds) await change.note('D', id.name);
      throw error;
    }
  }

  async link(id: FileId, source: FileId, atSeconds: number): Promise<void> {
    const { store } = this.#service;
    if (parseSliceId(id) || isTrunkId(id)) throw invalid('no such link');
    if (this.#isDeleted(id, atSeconds)) return;
    const path = relative(dirname(store.pathOf(id)), store.pathOf(source));
    await store.receiveLink(id, { path, name: source.name }, this.#change(id, atSeconds));
  }

  async rename(id: FileId, old: FileId, atSeconds: number): Promise<void> {
    const { backend, store, changing } = this.#service;
    if (id.name === old.name || id.directory.join() !== old.directory.join()) {
      throw invalid('a new name is in the same directory');
    }
    if (await backend.exists(store.pathOf(id))) throw exists(id.name);
    this.#unlessDeleted(id, atSeconds);
    const change = this.#change(id, atSeconds);
    await changing.exclusively(store.pathOf(old), () => store.renameAs(old, id, change));
  }

  async #part(
    id: FileId,
    request: SyncPart,
    payload: Payload,
    fits: (size: number, request: SyncPart) => void,
  ): Promise<void> {
    const { store, changing } = this.#service;
    const { atSeconds, offset } = request;
    this.#unlessDeleted(id, atSeconds);
    const path = store.pathOf(id);
    const stat = await this.#statOf(path);
    if (!stat) throw notFound(id.name);
    fits(stat.size, request);
    await changing.receiving(id.storePathIndex, payload, (piece) =>
      changing.change({ path, name: id.name }, this.#change(id, atSeconds), piece, ({ size }) => {
        fits(size, request);
        return writing(size === offset ? 'A' : 'M', piece, offset, size);
      }),
    );
  }

  /** Receives metadata or a list of deleted slices, which fit in memory. */
  async #beside(
    id: FileId,
    part: 'metadata' | 'deleted slices',
    atSeconds: number,
    payload: Payload,
    session: StorageSession,
  ): Promise<void> {
    const { store, metadata, slices } = this.#service;
    if (payload.remaining > MAX_BESIDE_BYTES) {
      throw invalid(`${payload.remaining} bytes of ${part}`);
    }
    const chunks: Buffer[] = [];
    while (payload.remaining > 0) chunks.push(...(await payload.next()));
    const content = Buffer.concat(chunks);
    if (this.#isDeleted(id, atSeconds)) return;
    const { storePath } = await this.#service.storePaths.roomFor(content.length, id.storePathIndex);
    const [high, low] = id.directory;
    await storePath.makePair(Number.parseInt(high, 16), Number.parseInt(low, 16));
    const file = { path: store.pathOf(id), name: id.name };
    const change = this.#service.replication.journal.received(atSeconds, false, () => {
      if (part === 'metadata') this.#unlessDeleted(id, atSeconds);
    });
    if (part === 'metadata') {
      const isSource = this.#service.replication.isSource(session.peer, id);
      await metadata.receive(file, content, change, isSource);
    } else if (isTrunkId(id)) await slices.receiveList(file, content, change);
    else throw invalid('deleted slices of a file that is not a trunk');
  }

  /** Discards the content; status 17 unless it was to replace a file. */
  async #drop(payload: Payload, replaces: boolean): Promise<void> {
    await payload.drain();
    if (!replaces) throw exists('it is here already');
  }

  #isDeleted(id: FileId, atSeconds: number): boolean {
    const deleted = this.#service.replication.tombstones.at(id.name);
    // Only slaves can be stored again under the same name.
    return deleted !== undefined && (fileKind(id) !== 'slave' || atSeconds <= deleted);
  }

  /** Status 17 for a deleted file: a change to it counts as applied. */
  #unlessDeleted(id: FileId, atSeconds: number): void {
    if (this.#isDeleted(id, atSeconds)) throw exists('it is deleted');
  }

  async #statOf(path: string): Promise<FileStat | undefined> {
    // Most sent files are not here, and `exists` costs less than a failed open.
    if (!(await this.#service.backend.exists(path))) return undefined;
    const opened = await ifThere(this.#service.files.acquire(path));
    opened?.release();
    return opened?.stat;
  }

  /** A lost file of this storage that comes back is logged as its own again. */
  #change(id: FileId, atSeconds: number, isNew = false): Change {
    const { identity, replication } = this.#service;
    const restores = isNew && identity.isSource(decodeFields(id.base).source);
    return replication.journal.received(atSeconds, restores);
  }
}

import { dirname } from 'node:path';
import { KeyedLock } from '@stevedore/async';
import type { FileCache } from '@stevedore/cache';
import { readSmallFile } from '@stevedore/disk';
import { type SliceEntry, type SliceId, Status } from '@stevedore/protocol';
import { asError, StatusError } from '@stevedore/wire';
import { ByteBoundedCache, sliceKey } from '../files/caches.js';
import type { FileParts } from '../files/file-parts.js';
import type { OpenFile } from '../files/open-files.js';
import { DELETED_SUFFIX } from '../layout.js';
import type { Change } from '../replication/journal.js';
import {
  decodeDeletedSlices,
  encodeDeletedSlice,
  readSliceTable,
  TrunkDirectory,
} from './trunk-directory.js';

/**
 * Slices of trunks. A slice id is honoured only if its offset, size and CRC-32
 * are an entry of the trunk's own directory and the slice is not deleted;
 * otherwise there is no such file. Loading a directory and deleting a slice of
 * the same trunk take turns, so that a deletion is never overlooked.
 */

export interface SlicesParts extends FileParts {
  readonly cache: FileCache;
  readonly hotSlices: HotSlices | undefined;
}

/** Copies of slices that are read often, apart from their trunks; any may go at any time. */
export interface HotSlices {
  /** Counts a read of the slice, or of what may be one. */
  count(trunkPath: string, offset: number): void;
  /** True if the slice is asked for often enough to be kept. */
  isWanted(trunkPath: string, offset: number, sizeBytes: number): boolean;
  /** The slice that begins there, if it is kept. */
  find(trunkPath: string, offset: number): SliceEntry | undefined;
  read(trunkPath: string, slice: SliceEntry): Buffer | undefined;
  keep(trunkPath: string, slice: SliceEntry, bytes: Buffer): void;
  /** There is no such slice any more; without an offset, no such trunk. */
  remove(trunkPath: string, offset?: number): void;
}

export class Slices {
  readonly #parts: SlicesParts;
  readonly #directories: ByteBoundedCache<TrunkDirectory>;
  readonly #locks = new KeyedLock();

  constructor(parts: SlicesParts) {
    this.#parts = parts;
    this.#directories = new ByteBoundedCache(
      parts.settings.maxDirectoryCacheBytes,
      (directory) => directory.byteLength,
    );
  }

  /** The open trunk in which the slice lies; status 2 if it does not. */
  async open(slice: SliceEntry, trunkPath: string): Promise<OpenFile> {
    if (!(await this.directory(trunkPath)).holds(slice))
      throw new StatusError(Status.notFound, 'no such slice');
    return this.#parts.files.acquire(trunkPath);
  }

  /**
   * The trunk's directory if it is in memory: the one that deletions are marked in. There
   * is none of a trunk that has been deleted.
   */
  knownDirectory(trunkPath: string): TrunkDirectory | undefined {
    return this.#directories.get(trunkPath);
  }

  /** The trunk's directory; status 2 if there is no trunk. */
  async directory(trunkPath: string): Promise<TrunkDirectory> {
    const known = this.#directories.get(trunkPath);
    return known ?? this.#locks.run(trunkPath, () => this.#directory(trunkPath));
  }

  /** Whether a slice that was there before is there still; reads nothing of the trunk for it. */
  async isStillThere(slice: SliceEntry, trunkPath: string): Promise<boolean> {
    const known = this.#directories.get(trunkPath);
    if (known) return known.holds(slice);
    // In this order: the list goes after its trunk.
    const deleted = await this.#deleted(trunkPath);
    if (deleted.some(({ offset }) => offset === slice.offset)) return false;
    return this.#parts.backend.exists(trunkPath);
  }

  /** Deletes the slice durably; status 2 if it is not there. */
  async delete(name: string, slice: SliceId, trunkPath: string, change: Change): Promise<void> {
    await this.#locks.run(trunkPath, async () => {
      const directory = await this.#directory(trunkPath);
      if (!directory.holds(slice)) throw new StatusError(Status.notFound, 'no such slice');
      await change.note('D', name);
      await this.#append(slice, trunkPath, change.seconds());
      this.#forget(slice, trunkPath, directory);
      // It has grown.
      this.#directories.set(trunkPath, directory);
    });
  }

  /**
   * Deletes what another member deleted. The trunk may come later and finds its slice
   * deleted; status 2 says that it is not here, or that the slice was gone already.
   */
  async receiveDeletion(
    name: string,
    slice: SliceId,
    trunkPath: string,
    change: Change,
  ): Promise<void> {
    await this.#locks.run(trunkPath, async () => {
      const before = await this.#deleted(trunkPath);
      const known = before.some(({ offset }) => offset === slice.offset);
      if (!known) {
        await change.note('D', name);
        await this.#append(slice, trunkPath, change.seconds());
        this.#forget(slice, trunkPath);
      }
      if (known || !(await this.#parts.backend.exists(trunkPath)))
        throw new StatusError(Status.notFound, 'no such slice');
    });
  }

  /** Takes over another member's list of deleted slices. */
  async receiveList(
    trunk: { readonly name: string; readonly path: string },
    list: Buffer,
    change: Change,
  ): Promise<void> {
    await this.#locks.run(trunk.path, async () => {
      const known = new Set((await this.#deleted(trunk.path)).map(({ offset }) => offset));
      const missing = decodeDeletedSlices(list).slices.filter(({ offset }) => !known.has(offset));
      if (missing.length === 0) return;
      await change.note('U', trunk.name + DELETED_SUFFIX);
      for (const slice of missing) {
        await this.#append(slice, trunk.path, slice.deletedAtSeconds);
        this.#forget(slice, trunk.path);
      }
    });
  }

  /** The list of a trunk's deleted slices as it is; undefined if there is none. */
  listToSend(trunkPath: string): Promise<Buffer | undefined> {
    return this.#locks.run(trunkPath, () =>
      readSmallFile(this.#parts.settings.disk, trunkPath + DELETED_SUFFIX),
    );
  }

  async #deleted(trunkPath: string): Promise<readonly SliceEntry[]> {
    const list = await readSmallFile(this.#parts.settings.disk, trunkPath + DELETED_SUFFIX);
    return decodeDeletedSlices(list ?? Buffer.alloc(0)).slices;
  }

  /** Removes a trunk, by a function that takes its list along, and what is known of its slices. */
  async deleteTrunk(trunkPath: string, remove: () => Promise<void>): Promise<void> {
    await this.#locks.run(trunkPath, async () => {
      try {
        await remove();
      } finally {
        // Even if it failed: the trunk may be gone. No row is made without a directory.
        this.#directories.delete(trunkPath);
        this.#parts.hotSlices?.remove(trunkPath);
      }
    });
  }

  /** The slice is deleted: nothing in memory or in a row says otherwise any more. */
  #forget(
    slice: SliceEntry,
    trunkPath: string,
    directory = this.#directories.get(trunkPath),
  ): void {
    directory?.markDeleted(slice);
    this.#parts.cache.delete(sliceKey(trunkPath, slice));
    this.#parts.hotSlices?.remove(trunkPath, slice.offset);
  }

  /** Only to be called with the trunk's lock: a directory of a trunk that is gone must not stay. */
  async #directory(trunkPath: string): Promise<TrunkDirectory> {
    const cached = this.#directories.get(trunkPath);
    if (cached) return cached;
    const trunk = await this.#parts.files.acquire(trunkPath);
    const table = await readSliceTable(trunk, this.#parts.settings.maxTrunkDirectoryBytes).finally(
      () => trunk.release(),
    );
    const list = await readSmallFile(this.#parts.settings.disk, trunkPath + DELETED_SUFFIX);
    const { slices, damaged } = decodeDeletedSlices(list ?? Buffer.alloc(0));
    if (damaged > 0) {
      this.#parts.settings.onError(
        new Error(`${trunkPath}${DELETED_SUFFIX} has ${damaged} damaged records`),
      );
    }
    const directory = new TrunkDirectory(
      table,
      slices.map((slice) => slice.offset),
    );
    this.#directories.set(trunkPath, directory);
    return directory;
  }

  async #append(slice: SliceEntry, trunkPath: string, deletedAtSeconds: number): Promise<void> {
    const path = trunkPath + DELETED_SUFFIX;
    const { offset, size, crc32 } = slice;
    const record = encodeDeletedSlice({ offset, size, crc32, deletedAtSeconds });
    const file = await this.#parts.settings.disk.openToUpdate(path);
    try {
      const { size: bytes } = await file.stat();
      const end = bytes - (bytes % record.length);
      try {
        await file.writeAt([record], end);
        await file.sync();
        // Always: the first deletion of this trunk may have ended between file and directory.
        await this.#parts.settings.disk.syncDirectory(dirname(path));
      } catch (error) {
        await file
          .truncate(end)
          .catch((again: unknown) => this.#parts.settings.onError(asError(again)));
        throw error;
      }
    } finally {
      await file.close();
    }
  }
}

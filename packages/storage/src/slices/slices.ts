import { dirname } from 'node:path';
import { KeyedLock } from '@stevedore/async';
import type { FileCache } from '@stevedore/cache';
import { readSmallFile } from '@stevedore/disk';
import type { SliceEntry, SliceId } from '@stevedore/protocol';
import { asError } from '@stevedore/wire';
import { LRUCache } from 'lru-cache';
import { sliceKey } from '../files/caches.js';
import type { OpenFile } from '../files/open-files.js';
import type { FileParts } from '../files/store-paths.js';
import { DELETED_SUFFIX } from '../layout.js';
import { notFound } from '../refusals.js';
import type { Change } from '../replication/journal.js';
import {
  type DeletedSlices,
  decodeDeletedSlices,
  encodeDeletedSlice,
  readSliceTable,
  TrunkDirectory,
} from './trunk-directory.js';

/**
 * Slices of trunks. A slice exists only if its offset, size and CRC-32 are an entry of the
 * trunk's own directory and it is not deleted. Loading a trunk's directory and deleting its
 * slices happen one at a time, so that no deletion is overlooked.
 */

export interface SlicesParts extends FileParts {
  readonly cache: FileCache;
}

/** Memory for directories of trunks: 13 bytes per slice. */
const MAX_DIRECTORIES_BYTES = 128 * 2 ** 20;

export class Slices {
  readonly #parts: SlicesParts;
  readonly #directories = new LRUCache<string, TrunkDirectory>({
    maxSize: MAX_DIRECTORIES_BYTES,
    sizeCalculation: ({ byteLength }) => byteLength,
  });
  readonly #locks = new KeyedLock();

  constructor(parts: SlicesParts) {
    this.#parts = parts;
  }

  /** Opens the slice's trunk; status 2 if there is no such slice. */
  async open(slice: SliceEntry, trunkPath: string): Promise<OpenFile> {
    if (!(await this.directory(trunkPath)).holds(slice)) throw notFound('no such slice');
    return this.#parts.files.acquire(trunkPath);
  }

  /**
   * The trunk's directory if it is in memory. Deletions are marked in it; a deleted trunk has
   * none.
   */
  knownDirectory(trunkPath: string): TrunkDirectory | undefined {
    return this.#directories.get(trunkPath);
  }

  /** The trunk's directory; status 2 if there is no trunk. */
  async directory(trunkPath: string): Promise<TrunkDirectory> {
    const known = this.#directories.get(trunkPath);
    return known ?? this.#locks.run(trunkPath, () => this.#directory(trunkPath));
  }

  /** Durably deletes the slice; status 2 if there is none. */
  async delete(name: string, slice: SliceId, trunkPath: string, change: Change): Promise<void> {
    await this.#locks.run(trunkPath, async () => {
      const directory = await this.#directory(trunkPath);
      if (!directory.holds(slice)) throw notFound('no such slice');
      await change.note('D', name);
      await this.#append(slice, trunkPath, change.seconds());
      this.#forget(slice, trunkPath, directory);
      // The directory has grown.
      this.#directories.set(trunkPath, directory);
    });
  }

  /**
   * Records another member's deletion, even if the trunk arrives later. Status 2 if the trunk
   * is not here or the slice was deleted before.
   */
  async receiveDeletion(
    name: string,
    slice: SliceId,
    trunkPath: string,
    change: Change,
  ): Promise<void> {
    await this.#locks.run(trunkPath, async () => {
      const { slices } = await this.#deleted(trunkPath);
      const known = offsetsOf(slices).has(slice.offset);
      if (!known) {
        await change.note('D', name);
        await this.#append(slice, trunkPath, change.seconds());
        this.#forget(slice, trunkPath);
      }
      if (known || !(await this.#parts.backend.exists(trunkPath))) throw notFound('no such slice');
    });
  }

  /** Adds the deletions of another member's list. */
  async receiveList(
    trunk: { readonly name: string; readonly path: string },
    list: Buffer,
    change: Change,
  ): Promise<void> {
    await this.#locks.run(trunk.path, async () => {
      const known = offsetsOf((await this.#deleted(trunk.path)).slices);
      const missing = decodeDeletedSlices(list).slices.filter(({ offset }) => !known.has(offset));
      if (missing.length === 0) return;
      await change.note('U', trunk.name + DELETED_SUFFIX);
      for (const slice of missing) {
        await this.#append(slice, trunk.path, slice.deletedAtSeconds);
        this.#forget(slice, trunk.path);
      }
    });
  }

  /** The current list of a trunk's deleted slices; undefined if there is none. */
  listToSend(trunkPath: string): Promise<Buffer | undefined> {
    return this.#locks.run(trunkPath, () =>
      readSmallFile(this.#parts.settings.disk, trunkPath + DELETED_SUFFIX),
    );
  }

  async #deleted(trunkPath: string): Promise<DeletedSlices> {
    const list = await readSmallFile(this.#parts.settings.disk, trunkPath + DELETED_SUFFIX);
    return decodeDeletedSlices(list ?? Buffer.alloc(0));
  }

  /** Removes a trunk. `remove` deletes it and its list; the caches are cleared here. */
  async deleteTrunk(trunkPath: string, remove: () => Promise<void>): Promise<void> {
    await this.#locks.run(trunkPath, async () => {
      try {
        await remove();
      } finally {
        // The trunk may be gone even after a failure.
        this.#directories.delete(trunkPath);
      }
    });
  }

  /** Removes a deleted slice from the directory and the cache. */
  #forget(
    slice: SliceEntry,
    trunkPath: string,
    directory = this.#directories.get(trunkPath),
  ): void {
    directory?.markDeleted(slice);
    this.#parts.cache.delete(sliceKey(trunkPath, slice));
  }

  /** Callers hold the trunk's lock, so that no directory of a deleted trunk stays in memory. */
  async #directory(trunkPath: string): Promise<TrunkDirectory> {
    const cached = this.#directories.get(trunkPath);
    if (cached) return cached;
    const trunk = await this.#parts.files.acquire(trunkPath);
    const table = await readSliceTable(trunk).finally(() => trunk.release());
    const { slices, damaged } = await this.#deleted(trunkPath);
    if (damaged > 0) {
      this.#parts.settings.onError(
        new Error(`${trunkPath}${DELETED_SUFFIX} has ${damaged} damaged records`),
      );
    }
    const directory = new TrunkDirectory(table, offsetsOf(slices));
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
        // Always: an earlier attempt may have failed between creating the file and this sync.
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

function offsetsOf(slices: readonly SliceEntry[]): Set<number> {
  return new Set(slices.map(({ offset }) => offset));
}

import { dirname } from 'node:path';
import { type Disk, type DiskFile, type DiskLink, hasCode, removeIfThere } from '@stevedore/disk';
import { METADATA_SUFFIX } from '../layout.js';

import type { FileBackend, NewFile, ReadableFile, StoredMetadata } from './file-backend.js';

/** Keeps every file on the disk, and its metadata in a file beside it. */
export class FilesOnDisk implements FileBackend {
  readonly #disk: Disk;
  readonly #temporaryFile: (path: string) => string;

  /** `temporaryFile` returns a free temporary path for a file that is moved to `path` later. */
  constructor(disk: Disk, temporaryFile: (path: string) => string) {
    this.#disk = disk;
    this.#temporaryFile = temporaryFile;
  }

  create(temporary: string, isWrittenOnce?: boolean): Promise<NewFile> {
    return newFileOnDisk(this.#disk, temporary, isWrittenOnce);
  }

  openToRead(path: string): Promise<ReadableFile> {
    return this.#disk.openToRead(path);
  }

  openToChange(path: string): Promise<DiskFile> {
    return this.#disk.openToUpdate(path);
  }

  exists(path: string): Promise<boolean> {
    return this.#disk.exists(path);
  }

  async move(from: string, to: string): Promise<void> {
    for (const suffix of ['', METADATA_SUFFIX]) {
      if (await this.#disk.exists(from + suffix)) {
        await this.#disk.rename(from + suffix, to + suffix);
      }
    }
  }

  remove(path: string): Promise<void> {
    return this.#disk.unlink(path);
  }

  makeLink(target: string, path: string): Promise<void> {
    return this.#disk.makeLink(target, path);
  }

  readLink(path: string): Promise<DiskLink> {
    return this.#disk.readLink(path);
  }

  sync(path: string): Promise<void> {
    return this.#disk.syncDirectory(dirname(path));
  }

  hasMetadata(path: string): Promise<boolean> {
    return this.#disk.exists(path + METADATA_SUFFIX);
  }

  async metadata(path: string): Promise<StoredMetadata | undefined> {
    try {
      const file = await this.#disk.openToRead(path + METADATA_SUFFIX);
      try {
        const { size, mtimeSeconds } = await file.stat();
        const text = Buffer.alloc(size);
        return { text: text.subarray(0, await file.readAt(text, 0)), mtimeSeconds };
      } finally {
        await file.close();
      }
    } catch (error) {
      if (hasCode(error, 'ENOENT')) return undefined;
      throw error;
    }
  }

  async setMetadata(path: string, metadata: StoredMetadata | undefined): Promise<void> {
    if (metadata) await this.#writeMetadata(path, metadata);
    else await removeIfThere(this.#disk, path + METADATA_SUFFIX);
    await this.sync(path);
  }

  async #writeMetadata(path: string, { text, mtimeSeconds }: StoredMetadata): Promise<void> {
    const file = await this.create(this.#temporaryFile(path), true);
    try {
      try {
        await file.content.writeAt([text], 0);
        await file.content.setModified(mtimeSeconds);
        await file.content.sync();
      } finally {
        await file.content.close();
      }
      await file.moveTo(path + METADATA_SUFFIX);
    } catch (error) {
      await file.discard().catch(() => {});
      throw error;
    }
  }

  list(directory: string): Promise<string[]> {
    return this.#disk.list(directory);
  }

  isAtomic(): boolean {
    return false;
  }
}

export async function newFileOnDisk(
  disk: Disk,
  temporary: string,
  isWrittenOnce?: boolean,
): Promise<NewFile> {
  return {
    content: await disk.create(temporary, isWrittenOnce),
    moveTo: (path) => disk.rename(temporary, path),
    discard: () => disk.unlink(temporary),
  };
}

/**
 * Shares the syncs of a directory, as many clients store files in the same one. A running
 * sync may miss later changes, so a later request waits for the next sync.
 */
export class SharedSyncs {
  readonly #sync: (path: string) => Promise<void>;
  readonly #underWay = new Map<string, UnderWay>();

  constructor(sync: (path: string) => Promise<void>) {
    this.#sync = sync;
  }

  sync(path: string): Promise<void> {
    const underWay = this.#underWay.get(path);
    if (!underWay) return this.#begin(path);
    underWay.next ??= underWay.ended.then(() => this.#begin(path));
    return underWay.next;
  }

  #begin(path: string): Promise<void> {
    const sync = this.#sync(path);
    const underWay: UnderWay = {
      ended: sync.catch(() => {}),
      next: undefined,
    };
    this.#underWay.set(path, underWay);
    void underWay.ended.then(() => {
      if (!underWay.next) this.#underWay.delete(path);
    });
    return sync;
  }
}

interface UnderWay {
  /** Resolves even if the sync fails: only its own callers get the error. */
  readonly ended: Promise<void>;
  next: Promise<void> | undefined;
}

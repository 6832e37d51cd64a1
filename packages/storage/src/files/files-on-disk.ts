import { dirname } from 'node:path';
import { type Disk, hasCode, removeIfThere } from '@stevedore/disk';
import { METADATA_SUFFIX } from '../layout.js';

import { type FileBackend, type NewFile, readInto, type StoredMetadata } from './file-backend.js';

/**
 * Keeps every file on the disk, and its metadata in a file beside it. `temporaryFile` returns a free
 * temporary path for a file that is moved to `path` later.
 */
export function filesOnDisk(disk: Disk, temporaryFile: (path: string) => string): FileBackend {
  const sync = (path: string): Promise<void> => disk.syncDirectory(dirname(path));

  const writeMetadata = async (path: string, { text, mtimeSeconds }: StoredMetadata) => {
    const file = await newFileOnDisk(disk, temporaryFile(path), true);
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
  };

  return {
    create: (temporary, isWrittenOnce) => newFileOnDisk(disk, temporary, isWrittenOnce),
    openToRead: (path) => disk.openToRead(path),
    readNow: (path, bytes) => disk.readNow?.(path, bytes),
    createNow: (path, chunks, mtimeSeconds) => disk.createNow?.(path, chunks, mtimeSeconds),
    openToChange: (path) => disk.openToUpdate(path),
    exists: (path) => disk.exists(path),
    remove: (path) => disk.unlink(path),
    makeLink: (target, path) => disk.makeLink(target, path),
    readLink: (path) => disk.readLink(path),
    sync,
    hasMetadata: (path) => disk.exists(path + METADATA_SUFFIX),
    list: (directory) => disk.list(directory),
    isAtomic: () => false,
    async move(from, to) {
      for (const suffix of ['', METADATA_SUFFIX]) {
        if (await disk.exists(from + suffix)) await disk.rename(from + suffix, to + suffix);
      }
    },
    async metadata(path) {
      try {
        const file = await disk.openToRead(path + METADATA_SUFFIX);
        try {
          const { size, mtimeSeconds } = await file.stat();
          return { text: await readInto(Buffer.alloc(size), file, 0), mtimeSeconds };
        } finally {
          await file.close();
        }
      } catch (error) {
        if (hasCode(error, 'ENOENT')) return undefined;
        throw error;
      }
    },
    async setMetadata(path, metadata) {
      if (metadata) await writeMetadata(path, metadata);
      else await removeIfThere(disk, path + METADATA_SUFFIX);
      await sync(path);
    },
  };
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

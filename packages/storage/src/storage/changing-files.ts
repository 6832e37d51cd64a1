import { dirname } from 'node:path';
import type { Disk, DiskFile } from '@stevedore/disk';
import { Status } from '@stevedore/protocol';
import { type Environment, nowSeconds } from '../environment.js';
import { asError, StatusError } from '../errors.js';
import type { KeyedLock } from './keyed-lock.js';
import type { OpenFile, OpenFiles } from './open-files.js';
import type { Piece } from './piece.js';

/**
 * Files that may change: appenders. Changes of one file take turns, and a reader
 * opens the file between two of them. A change that leaves the bytes of those
 * who are reading alone (an append, a growth) is made in place; any other is made
 * in a copy that takes the file's name while there are readers, so that each of
 * them gets the file as it was when it opened it. A change is durable before it
 * is answered. FORMAT.md says what a crash can leave.
 */

/** Bytes of a copy that are held in memory. */
const COPY_BYTES = 1024 * 1024;

/** What a change does to a file. */
interface Change {
  /** Bytes from here on may differ afterwards. */
  readonly from: number;
  /** Bytes of the file afterwards. */
  readonly size: number;
  write(file: DiskFile): Promise<void>;
}

export interface ChangingFilesParts {
  readonly disk: Disk;
  readonly files: OpenFiles;
  readonly environment: Environment;
  /** Shared with all that deletes, renames or describes files. */
  readonly locks: KeyedLock;
  /** A free name in the temporary directory of the file's store path. */
  readonly temporaryFile: (path: string) => string;
  readonly onError: (error: Error) => void;
}

export class ChangingFiles {
  readonly #parts: ChangingFilesParts;
  /** Readers of each file under way. */
  readonly #readers = new Map<string, number>();

  constructor(parts: ChangingFilesParts) {
    this.#parts = parts;
  }

  /** Opens the file as it is between two changes; status 2 if there is none. */
  acquire(path: string): Promise<OpenFile> {
    return this.#parts.locks.run(path, async () => {
      const opened = await this.#parts.files.acquire(path);
      this.#readers.set(path, (this.#readers.get(path) ?? 0) + 1);
      return {
        ...opened,
        release: () => {
          const left = (this.#readers.get(path) ?? 1) - 1;
          if (left > 0) this.#readers.set(path, left);
          else this.#readers.delete(path);
          opened.release();
        },
      };
    });
  }

  /** Runs the action on the file between two changes, alone; status 2 if there is none. */
  exclusively<Result>(
    path: string,
    action: (opened: OpenFile) => Promise<Result>,
  ): Promise<Result> {
    return this.#parts.locks.run(path, async () => {
      const opened = await this.#parts.files.acquire(path);
      try {
        return await action(opened);
      } finally {
        opened.release();
      }
    });
  }

  /** Writes the piece behind the last byte. */
  append(path: string, piece: Piece): Promise<void> {
    return this.#change(path, (size) => writing(piece, size, size));
  }

  /** Writes the piece at `offset`, at most the file's size; status 22 beyond. */
  modify(path: string, offset: number, piece: Piece): Promise<void> {
    return this.#change(path, (size) => {
      if (offset > size) throw new StatusError(Status.invalid, `offset ${offset} of ${size} bytes`);
      return writing(piece, offset, size);
    });
  }

  /** Cuts the file, or fills it up with zeros if `roomFor` has no objection to the growth. */
  truncate(
    path: string,
    size: number,
    roomFor: (bytes: number) => Promise<unknown>,
  ): Promise<void> {
    return this.#change(path, async (before) => {
      if (size === before) return undefined;
      if (size > before) await roomFor(size - before);
      return { from: Math.min(size, before), size, write: (file) => file.truncate(size) };
    });
  }

  #change(
    path: string,
    plan: (size: number) => Promise<Change | undefined> | Change | undefined,
  ): Promise<void> {
    const { disk, files, locks } = this.#parts;
    return locks.run(path, async () => {
      if (!(await disk.exists(path))) throw new StatusError(Status.notFound, path);
      const file = await disk.openToUpdate(path);
      try {
        const { size } = await file.stat();
        const change = await plan(size);
        if (!change) return;
        if (change.from < size && this.#readers.has(path)) await this.#replace(path, file, change);
        else await this.#inPlace(file, size, change);
      } finally {
        files.forget(path);
        await file.close();
      }
    });
  }

  async #inPlace(file: DiskFile, size: number, change: Change): Promise<void> {
    try {
      await change.write(file);
      await this.#finish(file);
    } catch (error) {
      // What was there before is whole if the change only added to it.
      if (change.size > size) {
        await file.truncate(size).catch((again: unknown) => this.#parts.onError(asError(again)));
      }
      throw error;
    }
  }

  /** Makes the change in a copy, which then takes the file's name. */
  async #replace(path: string, file: DiskFile, change: Change): Promise<void> {
    const { disk, temporaryFile } = this.#parts;
    const copyPath = temporaryFile(path);
    const copy = await disk.create(copyPath);
    try {
      try {
        await copyBytes(file, copy);
        await change.write(copy);
        await this.#finish(copy);
      } finally {
        await copy.close();
      }
      await disk.rename(copyPath, path);
    } catch (error) {
      await disk.unlink(copyPath).catch(() => {});
      throw error;
    }
    await disk.syncDirectory(dirname(path));
  }

  async #finish(file: DiskFile): Promise<void> {
    await file.setModified(nowSeconds(this.#parts.environment));
    await file.sync();
  }
}

function writing(piece: Piece, at: number, size: number): Change | undefined {
  if (piece.bytes === 0) return undefined;
  const end = at + piece.bytes;
  return { from: at, size: Math.max(size, end), write: (file) => piece.writeTo(file, at) };
}

async function copyBytes(from: DiskFile, to: DiskFile): Promise<void> {
  for (let at = 0; ; ) {
    const buffer = Buffer.allocUnsafe(COPY_BYTES);
    const read = await from.readAt(buffer, at);
    if (read > 0) await to.writeAt([buffer.subarray(0, read)], at);
    at += read;
    if (read < COPY_BYTES) return;
  }
}

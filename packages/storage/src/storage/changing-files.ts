import { dirname } from 'node:path';
import type { Disk, DiskFile } from '@stevedore/disk';
import { Status } from '@stevedore/protocol';
import { asError, StatusError } from '../errors.js';
import type { Change } from '../replication/change.js';
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
interface Effect {
  /** Bytes from here on may differ afterwards. */
  readonly from: number;
  /** Bytes of the file afterwards. */
  readonly size: number;
  /** How the log puts it, behind operation and name. */
  readonly noted: readonly ['A' | 'M' | 'T', string];
  write(file: DiskFile): Promise<void>;
}

/** A file that may change. */
export interface ChangingFile {
  readonly path: string;
  readonly name: string;
}

export interface ChangingFilesParts {
  readonly disk: Disk;
  readonly files: OpenFiles;
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
  append(file: ChangingFile, piece: Piece, change: Change): Promise<void> {
    return this.#change(file, change, (size) => writing('A', piece, size, size));
  }

  /** Writes the piece at `offset`, at most the file's size; status 22 beyond. */
  modify(file: ChangingFile, offset: number, piece: Piece, change: Change): Promise<void> {
    return this.#change(file, change, (size) => {
      if (offset > size) throw new StatusError(Status.invalid, `offset ${offset} of ${size} bytes`);
      return writing('M', piece, offset, size);
    });
  }

  /** Cuts the file, or fills it up with zeros if `roomFor` has no objection to the growth. */
  truncate(
    file: ChangingFile,
    size: number,
    change: Change,
    roomFor: (bytes: number) => Promise<unknown>,
  ): Promise<void> {
    return this.#change(file, change, async (before) => {
      if (size === before) return undefined;
      if (size > before) await roomFor(size - before);
      return {
        from: Math.min(size, before),
        size,
        noted: ['T', `${before} ${size}`],
        write: (opened) => opened.truncate(size),
      };
    });
  }

  #change(
    { path, name }: ChangingFile,
    change: Change,
    plan: (size: number) => Promise<Effect | undefined> | Effect | undefined,
  ): Promise<void> {
    const { disk, files, locks } = this.#parts;
    return locks.run(path, async () => {
      if (!(await disk.exists(path))) throw new StatusError(Status.notFound, path);
      const file = await disk.openToUpdate(path);
      try {
        const { size } = await file.stat();
        const effect = await plan(size);
        if (!effect) return;
        const [operation, extra] = effect.noted;
        await change.note(operation, name, extra);
        const seconds = change.seconds();
        if (effect.from < size && this.#readers.has(path)) {
          await this.#replace(path, file, effect, seconds);
        } else await this.#inPlace(file, size, effect, seconds);
      } finally {
        files.forget(path);
        await file.close();
      }
    });
  }

  async #inPlace(file: DiskFile, size: number, effect: Effect, seconds: number): Promise<void> {
    try {
      await effect.write(file);
      await finish(file, seconds);
    } catch (error) {
      // What was there before is whole if the change only added to it.
      if (effect.size > size) {
        await file.truncate(size).catch((again: unknown) => this.#parts.onError(asError(again)));
      }
      throw error;
    }
  }

  /** Makes the change in a copy, which then takes the file's name. */
  async #replace(path: string, file: DiskFile, effect: Effect, seconds: number): Promise<void> {
    const { disk, temporaryFile } = this.#parts;
    const copyPath = temporaryFile(path);
    const copy = await disk.create(copyPath);
    try {
      try {
        await copyBytes(file, copy);
        await effect.write(copy);
        await finish(copy, seconds);
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
}

async function finish(file: DiskFile, seconds: number): Promise<void> {
  await file.setModified(seconds);
  await file.sync();
}

function writing(operation: 'A' | 'M', piece: Piece, at: number, size: number): Effect | undefined {
  if (piece.bytes === 0) return undefined;
  return {
    from: at,
    size: Math.max(size, at + piece.bytes),
    noted: [operation, `${at} ${piece.bytes}`],
    write: (file) => piece.writeTo(file, at),
  };
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

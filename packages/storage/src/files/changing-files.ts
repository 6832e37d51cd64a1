import type { DiskFile, FileStat } from '@stevedore/disk';
import { Status } from '@stevedore/protocol';
import { asError, StatusError } from '@stevedore/wire';
import type { Change } from '../replication/journal.js';
import { copyBytes } from './file-backend.js';
import type { FileParts } from './file-parts.js';
import type { Piece } from './incoming-file.js';
import type { OpenFile } from './open-files.js';

/**
 * Files that may change: appenders. Changes of one file take turns, and a reader
 * opens the file between two of them. A change that leaves the bytes of those
 * who are reading alone (an append, a growth) is made in place; any other is made
 * in a copy that takes the file's name while there are readers, so that each of
 * them gets the file as it was when it opened it. A change is in the journal before
 * it is made and durable before it is answered: after a crash it has happened wholly
 * or not at all.
 */

/** What a change does to a file: the piece goes to `offset`, then the file has `size` bytes. */
export interface Effect {
  readonly offset: number;
  readonly size: number;
  readonly piece?: Piece;
  /** How the log puts it, behind operation and name. */
  readonly noted: readonly ['A' | 'M' | 'T', string];
}

/** A file that may change. */
export interface ChangingFile {
  readonly path: string;
  readonly name: string;
}

export class ChangingFiles {
  readonly #parts: FileParts;
  /** Readers of each file under way. */
  readonly #readers = new Map<string, number>();

  constructor(parts: FileParts) {
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

  /** Writes the piece, which is used up whatever comes of it, behind the last byte. */
  append(file: ChangingFile, piece: Piece, change: Change): Promise<void> {
    return this.change(file, change, piece, ({ size }) => writing('A', piece, size, size));
  }

  /** Writes the piece, likewise, at `offset`, at most the file's size; status 22 beyond. */
  modify(file: ChangingFile, offset: number, piece: Piece, change: Change): Promise<void> {
    return this.change(file, change, piece, ({ size }) => {
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
    return this.change(file, change, undefined, async ({ size: before }) => {
      if (size === before) return undefined;
      if (size > before) await roomFor(size - before);
      return cutting(before, size);
    });
  }

  /**
   * Makes a change whose effect depends on what the file is by then; `plan` throws what
   * is to be answered instead, or gives nothing if there is nothing to be done. The
   * piece is used up whatever comes of it.
   */
  async change(
    changing: ChangingFile,
    change: Change,
    piece: Piece | undefined,
    plan: (stat: FileStat) => Promise<Effect | undefined> | Effect | undefined,
  ): Promise<void> {
    const { files, storePaths } = this.#parts;
    const { path } = changing;
    const journal = storePaths.journalOf(path);
    let isPieceNeeded = false;
    try {
      await this.#withFile(path, async (file) => {
        const stat = await file.stat();
        const { size } = stat;
        const effect = await plan(stat);
        if (!effect) return;
        await note(changing, effect, change);
        await piece?.sync();
        const { offset } = effect;
        const recorded = await journal.record(
          { what: 'write', path, offset, size: effect.size, piece: piece?.name },
          piece?.chunks,
        );
        const finish = async (): Promise<void> => {
          // A record that speaks of the piece must be void before the piece goes.
          if (piece?.name !== undefined) await journal.forget(path);
          await piece?.discard();
        };
        isPieceNeeded = true;
        try {
          await this.#make(path, file, effect, change.seconds());
        } catch (error) {
          recorded.unsettled(() => this.#settle(changing, size, effect, change, finish));
          await this.#settled(path);
          // An overwriting can only be carried through; if it now has been, all is well.
          if (!isAddition(effect, size) && !journal.isUnsettled(path)) return;
          throw error;
        } finally {
          files.forget(path);
        }
        if (piece?.name === undefined) {
          recorded.done();
        } else {
          recorded.unsettled(finish);
          await this.#settled(path);
        }
      });
    } finally {
      if (!isPieceNeeded) await piece?.discard();
    }
  }

  /** Ends what a disk has refused to do: an addition is taken back, all else carried through. */
  async #settle(
    changing: ChangingFile,
    size: number,
    effect: Effect,
    change: Change,
    finish: () => Promise<void>,
  ): Promise<void> {
    const { backend, files, storePaths } = this.#parts;
    const { path } = changing;
    const file = await backend.openToChange(path);
    try {
      if (isAddition(effect, size)) {
        await file.truncate(size);
        await file.sync();
        await storePaths.journalOf(path).forget(path);
      } else {
        // A sender that followed the log has looked at the file too early.
        await note(changing, effect, change);
        await this.#make(path, file, effect, change.seconds());
      }
    } finally {
      files.forget(path);
      await file.close();
    }
    await finish();
  }

  async #settled(path: string): Promise<void> {
    const { settings, storePaths } = this.#parts;
    await storePaths
      .journalOf(path)
      .settle(path)
      .catch((error: unknown) => settings.onError(asError(error)));
  }

  /** Works on the open file between two changes; status 2 if there is none. */
  #withFile(path: string, work: (file: DiskFile) => Promise<void>): Promise<void> {
    const { backend, locks } = this.#parts;
    return locks.run(path, async () => {
      if (!(await backend.exists(path))) throw new StatusError(Status.notFound, path);
      const file = await backend.openToChange(path);
      try {
        await work(file);
      } finally {
        await file.close();
      }
    });
  }

  /** In place, unless somebody reads what it would alter. */
  async #make(path: string, file: DiskFile, effect: Effect, seconds: number): Promise<void> {
    const { size } = await file.stat();
    if (effect.offset < size && this.#readers.has(path)) {
      await this.#replace(path, file, size, effect, seconds);
    } else {
      await write(file, effect, seconds);
    }
  }

  /** Makes the change in a copy, which then takes the file's name. */
  async #replace(
    path: string,
    file: DiskFile,
    size: number,
    effect: Effect,
    seconds: number,
  ): Promise<void> {
    const { backend, storePaths } = this.#parts;
    const copy = await backend.create(storePaths.of(path).temporaryFile());
    try {
      try {
        await copyBytes(file, size, copy.content, 0);
        await write(copy.content, effect, seconds);
      } finally {
        await copy.content.close();
      }
      await copy.moveTo(path);
    } catch (error) {
      await copy.discard().catch(() => {});
      throw error;
    }
    await backend.sync(path);
  }
}

function note({ name }: ChangingFile, { noted }: Effect, change: Change): Promise<void> {
  const [operation, extra] = noted;
  return change.note(operation, name, extra);
}

async function write(
  file: DiskFile,
  { piece, offset, size }: Effect,
  seconds: number,
): Promise<void> {
  await piece?.writeTo(file, offset);
  if ((await file.stat()).size !== size) await file.truncate(size);
  await file.setModified(seconds);
  await file.sync();
}

/** True if nothing of what the file was before is touched. */
function isAddition({ offset }: Effect, size: number): boolean {
  return offset >= size;
}

/** The effect of a new size. */
export function cutting(before: number, size: number): Effect {
  return { offset: Math.min(size, before), size, noted: ['T', `${before} ${size}`] };
}

/** The effect of a piece at an offset; undefined for an empty one. */
export function writing(
  operation: 'A' | 'M',
  piece: Piece,
  offset: number,
  size: number,
): Effect | undefined {
  if (piece.bytes === 0) return undefined;
  const noted = [operation, `${offset} ${piece.bytes}`] as const;
  return { offset, size: Math.max(size, offset + piece.bytes), piece, noted };
}

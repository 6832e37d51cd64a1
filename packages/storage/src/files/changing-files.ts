import type { DiskFile, FileStat } from '@stevedore/disk';
import { asError, type Payload } from '@stevedore/wire';
import { invalid, notFound } from '../refusals.js';
import type { Change } from '../replication/journal.js';
import type { Recorded } from './change-journal.js';
import { copyBytes } from './file-backend.js';
import { type Piece, receivePiece } from './incoming-file.js';
import type { OpenFile } from './open-files.js';
import type { FileParts } from './store-paths.js';

/**
 * Appenders: files that can change. Changes to one file are made one at a time, and no file
 * is opened for reading during one. Appends and extensions are applied in place. While
 * somebody reads the file, anything else is applied to a copy that then takes the file's
 * name, so that each reader gets the file as it was when it opened it. A change is in the
 * journal before it is applied and durable before it is answered: after a crash it is
 * applied completely or not at all. The bytes of an append are in the file alone.
 */

/** What a change does: write the piece at `offset`, then set the file's size to `size`. */
export interface Effect {
  readonly offset: number;
  readonly size: number;
  readonly piece?: Piece;
  /** The binlog record: its operation, and what follows the name. */
  readonly noted: readonly ['A' | 'M' | 'T', string];
}

/** A file that may change. */
export interface ChangingFile {
  readonly path: string;
  readonly name: string;
}

export class ChangingFiles {
  readonly #parts: FileParts;
  /** Number of readers by path. */
  readonly #readers = new Map<string, number>();

  constructor(parts: FileParts) {
    this.#parts = parts;
  }

  /** Opens the file between two changes; status 2 if there is none. */
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

  /** Runs the action while the file cannot change; status 2 if there is none. */
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

  /** Receives bytes for a change of the file, which `make` makes. Status 28 if there is no room. */
  receiving(
    storePathIndex: number,
    payload: Payload,
    make: (piece: Piece) => Promise<void>,
  ): Promise<void> {
    const { settings, storePaths } = this.#parts;
    return storePaths.holding(payload.remaining, storePathIndex, async (storePath) => {
      await make(await receivePiece(settings.disk, () => storePath.temporaryFile(), payload));
    });
  }

  /** Appends the piece. Discards it in any case. */
  append(file: ChangingFile, piece: Piece, change: Change): Promise<void> {
    return this.change(file, change, piece, ({ size }) => writing('A', piece, size, size));
  }

  /** Writes the piece at `offset`; status 22 beyond the file's end. Discards it in any case. */
  modify(file: ChangingFile, offset: number, piece: Piece, change: Change): Promise<void> {
    return this.change(file, change, piece, ({ size }) => {
      if (offset > size) throw invalid(`offset ${offset} of ${size} bytes`);
      return writing('M', piece, offset, size);
    });
  }

  /** Truncates the file, or extends it with zeros unless `roomFor` rejects. */
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
   * Makes a change. `plan` derives its effect from the current file: it throws to refuse the
   * change, and returns undefined if there is nothing to do. Discards the piece in any case.
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
        const isAppend = piece !== undefined && isAddition(effect, size);
        const recorded = isAppend
          ? await this.#recordAppend(changing, effect, piece, change)
          : await this.#recordWrite(changing, effect, piece, change);
        const finish = async (): Promise<void> => {
          // A record that names the piece must be void before the piece is removed.
          if (!isAppend && piece?.name !== undefined) await journal.forget(path);
          await piece?.discard();
        };
        isPieceNeeded = true;
        try {
          await this.#make(path, file, effect, change.seconds());
        } catch (error) {
          recorded.unsettled(() => this.#settle(changing, size, effect, change, finish));
          await this.#settled(path);
          // An overwrite or truncation was retried; if that worked, the change has succeeded.
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

  /**
   * Of an append, the size before tells what to undo: its bytes need not be in the journal, and until
   * it has begun, the record says nothing. So it may be recorded while the binlog is written.
   */
  async #recordAppend(
    changing: ChangingFile,
    effect: Effect,
    { bytes, crc32 }: Piece,
    change: Change,
  ): Promise<Recorded> {
    const { path } = changing;
    const { offset } = effect;
    const journal = this.#parts.storePaths.journalOf(path);
    const [recorded, noted] = await Promise.allSettled([
      journal.record({ what: 'append', path, offset, bytes, crc32 }),
      note(changing, effect, change),
    ]);
    if (recorded.status === 'rejected') throw recorded.reason;
    if (noted.status === 'fulfilled') return recorded.value;
    recorded.value.done();
    throw noted.reason;
  }

  async #recordWrite(
    changing: ChangingFile,
    effect: Effect,
    piece: Piece | undefined,
    change: Change,
  ): Promise<Recorded> {
    const { path } = changing;
    const { offset, size } = effect;
    await note(changing, effect, change);
    await piece?.sync();
    const write = { what: 'write', path, offset, size, piece: piece?.name } as const;
    return this.#parts.storePaths.journalOf(path).record(write, piece?.chunks);
  }

  /** Settles a failed change: rolls back an append or extension, retries anything else. */
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
        // A sender may have read the first record and looked at the file too early.
        await note(changing, effect, change);
        await this.#make(path, file, effect, change.seconds());
        // The copy of the first attempt may have taken the file's name.
        await backend.sync(path);
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

  /** Opens the file to change it, alone; status 2 if there is none. */
  #withFile(path: string, work: (file: DiskFile) => Promise<void>): Promise<void> {
    const { backend, locks } = this.#parts;
    return locks.run(path, async () => {
      if (!(await backend.exists(path))) throw notFound(path);
      const file = await backend.openToChange(path);
      try {
        await work(file);
      } finally {
        await file.close();
      }
    });
  }

  /** Applies the effect: in place, unless somebody reads bytes that it alters. */
  async #make(path: string, file: DiskFile, effect: Effect, seconds: number): Promise<void> {
    const { size } = await file.stat();
    if (effect.offset < size && this.#readers.has(path)) {
      await this.#replace(path, file, size, effect, seconds);
    } else {
      await write(file, effect, seconds);
    }
  }

  /** Applies the effect to a copy, which then takes the file's name. */
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
  // Again at a second attempt, too: the sync of the first one failed.
  if (!piece || (await file.stat()).size !== size) await file.truncate(size);
  await file.setModified(seconds);
  await file.sync();
}

/** True for an append or extension: existing bytes stay as they are. */
function isAddition({ offset }: Effect, size: number): boolean {
  return offset >= size;
}

/** The effect of a truncation or extension. */
export function cutting(before: number, size: number): Effect {
  return { offset: Math.min(size, before), size, noted: ['T', `${before} ${size}`] };
}

/** The effect of writing a piece at an offset; undefined for an empty piece. */
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

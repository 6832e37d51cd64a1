import { dirname, join } from 'node:path';
import { crc32 } from 'node:zlib';
import { type Disk, hasCode, readSmallFile, removeIfThere } from '@stevedore/disk';
import { METADATA_SUFFIX, temporaryDirectory } from '../storage/layout.js';
import { Place } from './constants.js';
import type { FileRecord, Records } from './records.js';

/**
 * The files of one store path and their moves between row and data file. A move is
 * copy, verify, switch, delete; the record says at every moment where the bytes are,
 * and a mark in it that the other copy, if there is one, is to be removed:
 *
 *   row -> file   mark, copy under a temporary name, read back, give it its name,
 *                 switch (the row's bytes go with that)
 *   file -> row   copy into the row, read back, switch and mark, delete the data file,
 *                 take the mark off
 *
 * A crash leaves the record before or after the switch, and `recover` removes what
 * the mark points at. Whoever changes or deletes the file revokes its move first and
 * waits until nothing of it is left. Readers are not held up: they have the old copy.
 */

/** Points of a move at which a test can end the process. */
export type MoveStep = 'marked' | 'copied' | 'verified' | 'named' | 'switched' | 'deleted';

export type MoveOutcome = 'moved' | 'revoked' | 'refused';

export interface TierParts {
  readonly disk: Disk;
  /** Of the store path. */
  readonly path: string;
  /** The data directory, with a separator behind it. */
  readonly data: string;
  readonly records: Records;
  readonly onStep: (step: MoveStep, name: string) => void;
  /** The bytes of this path lie elsewhere now. */
  readonly onMoved: (path: string) => void;
}

/** A file's content that takes the place of what was there. */
export interface NewContent {
  readonly bytes: Buffer;
  readonly mtimeSeconds: number;
}

interface Move {
  revoked: boolean;
  readonly done: Promise<void>;
}

export class Tier {
  readonly records: Records;
  readonly data: string;
  readonly #parts: TierParts;
  readonly #moves = new Map<string, Move>();
  /** Files that are open to be changed, with the number of those who have them. */
  readonly #changing = new Map<string, number>();
  #temporaries = 0;
  #revokes = 0;

  constructor(parts: TierParts) {
    this.#parts = parts;
    this.records = parts.records;
    this.data = parts.data;
  }

  /** Moves that a change of their file has ended. */
  get revokes(): number {
    return this.#revokes;
  }

  pathOf(name: string): string {
    return join(this.data, name);
  }

  /** Removes what moves have left that did not end; to be called before anything else. */
  async recover(): Promise<void> {
    for (const { name, place } of this.records.moving()) {
      if (place === Place.row) await this.#deleteDataFile(name);
      this.records.setMoving(name, false);
    }
    await this.records.commit();
  }

  /** Ends a move of the file that is under way, and waits until it has ended. */
  async revoke(name: string): Promise<void> {
    const move = this.#moves.get(name);
    if (!move) return;
    move.revoked = true;
    await move.done;
  }

  /** Nobody moves the file until the function that this gives is called. */
  async beginChange(name: string): Promise<() => void> {
    this.#changing.set(name, (this.#changing.get(name) ?? 0) + 1);
    await this.revoke(name);
    return () => {
      const left = this.#changing.get(name)! - 1;
      if (left > 0) this.#changing.set(name, left);
      else this.#changing.delete(name);
    };
  }

  /** The content becomes the file's row; durable with the next commit. */
  async becomeRow(name: string, { bytes, mtimeSeconds }: NewContent): Promise<void> {
    const before = this.records.find(name);
    const onDisk = before
      ? before.place === Place.file
      : await this.#parts.disk.exists(this.pathOf(name));
    const metadata = onDisk && !before ? await this.#metadataBeside(name) : undefined;
    this.records.put(
      {
        name,
        place: Place.row,
        size: bytes.length,
        mtimeSeconds,
        crc32: crc32(bytes),
        moves: (before?.moves ?? 0) + (onDisk ? 1 : 0),
        moving: onDisk,
      },
      bytes,
    );
    if (metadata) this.records.setMetadata(name, metadata);
    if (!onDisk) return;
    await this.records.commit();
    await this.#finishInRow(name);
  }

  /** A file on the disk, whole and synced, gets the name; its row, if it has one, goes. */
  async becomeFile(name: string, temporary: string, mtimeSeconds: number): Promise<void> {
    const { disk } = this.#parts;
    const path = this.pathOf(name);
    const before = this.records.find(name);
    if (before?.place === Place.row) {
      this.records.setMoving(name, true);
      await this.records.commit();
      this.#step('marked', name);
    }
    await disk.rename(temporary, path);
    if (!before) return;
    await disk.syncDirectory(dirname(path));
    this.#step('named', name);
    this.#switchToFile(before, (await this.#sizeOf(path)) ?? before.size, mtimeSeconds);
  }

  /** The content of a changed row is too large for one: it becomes a data file, durably. */
  async growOut(record: FileRecord, content: NewContent): Promise<void> {
    this.records.setMoving(record.name, true);
    await this.records.commit();
    this.#step('marked', record.name);
    const temporary = await this.#copyOut(record.name, content);
    await this.becomeFile(record.name, temporary, content.mtimeSeconds);
    await this.records.commit();
    this.#step('switched', record.name);
    this.#parts.onMoved(this.pathOf(record.name));
  }

  /** Moves a file from its row into a data file. */
  moveToFile(name: string): Promise<MoveOutcome> {
    return this.#move(name, Place.row, async (record, move) => {
      this.records.setMoving(name, true);
      await this.records.commit();
      this.#step('marked', name);
      const bytes = this.records.bytes(name)!;
      const temporary = await this.#copyOut(name, { bytes, mtimeSeconds: record.mtimeSeconds });
      if (move.revoked) {
        await this.#parts.disk.unlink(temporary);
        return this.#takeBack(name);
      }
      const path = this.pathOf(name);
      await this.#parts.disk.rename(temporary, path);
      await this.#parts.disk.syncDirectory(dirname(path));
      this.#step('named', name);
      if (move.revoked) {
        await this.#deleteDataFile(name);
        return this.#takeBack(name);
      }
      this.#switchToFile(record, record.size, record.mtimeSeconds);
      await this.records.commit();
      this.#step('switched', name);
      return 'moved';
    });
  }

  /** Moves a file from its data file into a row, if it is no larger than `limitBytes`. */
  moveToRow(name: string, limitBytes: number): Promise<MoveOutcome> {
    return this.#move(name, Place.file, async (_record, move) => {
      const content = await this.#copyIn(name, limitBytes);
      if (!content || move.revoked) return content ? 'revoked' : 'refused';
      this.#step('copied', name);
      const metadata = this.records.find(name) ? undefined : await this.#metadataBeside(name);
      // From here to the commit nobody comes in between.
      if (move.revoked) return 'revoked';
      const before = this.records.find(name);
      const sum = crc32(content.bytes);
      this.records.put(
        {
          name,
          place: Place.row,
          size: content.bytes.length,
          mtimeSeconds: content.mtimeSeconds,
          crc32: sum,
          moves: (before?.moves ?? 0) + 1,
          moving: true,
        },
        content.bytes,
      );
      if (metadata) this.records.setMetadata(name, metadata);
      if (crc32(this.records.bytes(name)!) !== sum) {
        if (before) this.records.put(before, undefined);
        else this.records.remove(name);
        throw new Error(`the row of ${name} does not hold what was put into it`);
      }
      await this.records.commit();
      this.#step('switched', name);
      await this.#finishInRow(name);
      return 'moved';
    });
  }

  async #move(
    name: string,
    from: Place,
    make: (record: FileRecord, move: Move) => Promise<MoveOutcome>,
  ): Promise<MoveOutcome> {
    if (this.#moves.has(name) || this.#changing.has(name)) return 'refused';
    let ended = (): void => {};
    const move: Move = {
      revoked: false,
      done: new Promise((resolve) => {
        ended = resolve;
      }),
    };
    this.#moves.set(name, move);
    try {
      const record = await this.#recordOf(name);
      if (record?.place !== from) return 'refused';
      const outcome = await make(record, move);
      if (outcome === 'moved') this.#parts.onMoved(this.pathOf(name));
      if (outcome === 'revoked') this.#revokes += 1;
      return outcome;
    } finally {
      this.#moves.delete(name);
      ended();
    }
  }

  /** A data file without a record is one all the same. */
  async #recordOf(name: string): Promise<FileRecord | undefined> {
    const record = this.records.find(name);
    if (record) return record;
    const size = await this.#sizeOf(this.pathOf(name));
    if (size === undefined) return undefined;
    const rest = { mtimeSeconds: 0, crc32: 0, moves: 0, moving: false };
    return { name, place: Place.file, size, ...rest };
  }

  #switchToFile(before: FileRecord, size: number, mtimeSeconds: number): void {
    const moves = before.moves + (before.place === Place.row ? 1 : 0);
    this.records.put(
      { ...before, place: Place.file, size, mtimeSeconds, crc32: 0, moves, moving: false },
      undefined,
    );
  }

  async #finishInRow(name: string): Promise<void> {
    await this.#deleteDataFile(name);
    this.#step('deleted', name);
    this.records.setMoving(name, false);
    await this.records.commit();
  }

  async #takeBack(name: string): Promise<MoveOutcome> {
    this.records.setMoving(name, false);
    await this.records.commit();
    return 'revoked';
  }

  /** Writes the content under a temporary name, synced, and reads it back. */
  async #copyOut(name: string, { bytes, mtimeSeconds }: NewContent): Promise<string> {
    const { disk, path } = this.#parts;
    this.#temporaries += 1;
    const temporary = join(temporaryDirectory(path), `move-${this.#temporaries}`);
    const file = await disk.create(temporary);
    try {
      await file.writeAt([bytes], 0);
      await file.setModified(mtimeSeconds);
      await file.sync();
      this.#step('copied', name);
      const copy = Buffer.allocUnsafe(bytes.length);
      const read = await file.readAt(copy, 0);
      if (read !== bytes.length || crc32(copy) !== crc32(bytes)) {
        throw new Error(`the copy of ${name} does not hold what was written into it`);
      }
      this.#step('verified', name);
    } finally {
      await file.close();
    }
    return temporary;
  }

  async #copyIn(name: string, limitBytes: number): Promise<NewContent | undefined> {
    const file = await this.#parts.disk.openToRead(this.pathOf(name));
    try {
      const { size, mtimeSeconds } = await file.stat();
      if (size > limitBytes) return undefined;
      const bytes = Buffer.allocUnsafe(size);
      const read = await file.readAt(bytes, 0);
      if (read !== size) throw new Error(`${name} is ${size - read} bytes short`);
      return { bytes, mtimeSeconds };
    } finally {
      await file.close();
    }
  }

  #metadataBeside(name: string): Promise<Buffer | undefined> {
    return readSmallFile(this.#parts.disk, this.pathOf(name) + METADATA_SUFFIX);
  }

  async #deleteDataFile(name: string): Promise<void> {
    const { disk } = this.#parts;
    const path = this.pathOf(name);
    await removeIfThere(disk, path);
    await removeIfThere(disk, path + METADATA_SUFFIX);
    await disk.syncDirectory(dirname(path));
  }

  async #sizeOf(path: string): Promise<number | undefined> {
    try {
      const file = await this.#parts.disk.openToRead(path);
      try {
        return (await file.stat()).size;
      } finally {
        await file.close();
      }
    } catch (error) {
      // A link is no data file.
      if (hasCode(error, 'ENOENT') || hasCode(error, 'ELOOP')) return undefined;
      throw error;
    }
  }

  #step(step: MoveStep, name: string): void {
    this.#parts.onStep(step, name);
  }
}

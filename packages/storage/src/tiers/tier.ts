import { basename, dirname, join } from 'node:path';
import { crc32 } from 'node:zlib';
import { type Disk, hasCode, readSmallFile, removeIfThere } from '@stevedore/disk';
import { AuthenticationError, ConnectionError, StatusError } from '../errors.js';
import type { HomeId } from '../guests/guest-hosts.js';
import { isGuestBase } from '../guests/guest-name.js';
import type { Guests } from '../guests/guests.js';
import type { DataFile } from '../io-tier/data-file.js';
import { type DataFiles, dataRecord } from '../io-tier/data-files.js';
import type { StripedFile } from '../io-tier/striped-file.js';
import { METADATA_SUFFIX, temporaryDirectory } from '../storage/layout.js';
import { MAX_DEPARTURES, Place } from './constants.js';
import type { FileRecord } from './record-row.js';
import type { Records } from './records.js';

/**
 * The files of one store path and their moves between row and data file. A move is
 * copy, verify, switch, delete; the record says at every moment where the bytes are,
 * and a mark in it that a copy on this disk, if there is one, is to be removed:
 *
 *   row -> file      mark, copy under a temporary name, read back, give it its name,
 *                    switch (the row's bytes go with that)
 *   file -> row      copy into the row, read back, switch and mark, delete the data file,
 *                    take the mark off
 *   row -> servers   copy under a new handle, read back there, switch
 *   servers -> row   copy into the row, read back, switch and list the parts for deletion,
 *                    delete them, take them off the list
 *   row -> guest     list the place for deletion, copy to the other metadata server, read
 *                    back from there, switch and take the place off the list
 *   guest -> row     copy into the row, switch and list the place, delete it there
 *
 * A crash leaves the record before or after the switch, and `recover` removes what
 * the mark points at; what it leaves at I/O servers no record knows, and is found there.
 * Whoever changes or deletes the file revokes its move first and waits until nothing of
 * it is left. Readers are not held up: they have the old copy.
 */

/** With other servers each time: one that has failed is not asked for a moment. */
const MAX_COPY_ATTEMPTS = 3;

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
  /** Undefined where files never go to I/O servers. */
  readonly dataFiles: DataFiles | undefined;
  /** Undefined where no other metadata server is ever given anything. */
  readonly guests: Guests | undefined;
  /** Of its threshold, beyond which the data file of a row is made ahead. */
  readonly preMigrationShare: number;
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
  /** Called when the move is revoked, for one that would not notice by itself. */
  onRevoke?: () => void;
}

/** A move that a client is to carry on: what there was is copied, the record not switched. */
export interface OnwardMove {
  /** Has what the file had. */
  readonly file: StripedFile;
  readonly size: number;
  /** True once the file was changed or deleted meanwhile, or the move was given up. */
  readonly isRevoked: boolean;
  /**
   * The record is switched to the file with what was appended to it, unless the move
   * was revoked; durable with the next commit. To be called by who has the file for himself.
   */
  finish(size: number, checks: readonly number[], mtimeSeconds: number): boolean;
  giveUp(): void;
}

export class Tier {
  readonly records: Records;
  readonly data: string;
  readonly dataFiles: DataFiles | undefined;
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
    this.dataFiles = parts.dataFiles;
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
      if (place !== Place.file) await this.#deleteLocalFile(name);
      this.records.setMoving(name, false);
    }
    await this.records.commit();
  }

  /** Ends a move of the file that is under way, and waits until it has ended. */
  async revoke(name: string): Promise<void> {
    const move = this.#moves.get(name);
    if (!move) return;
    move.revoked = true;
    move.onRevoke?.();
    await move.done;
  }

  /** Nobody moves the file, or answers for it, until the function that this gives is called. */
  async beginChange(name: string): Promise<() => void> {
    this.#changing.set(name, (this.#changing.get(name) ?? 0) + 1);
    const done = (): void => {
      const left = this.#changing.get(name)! - 1;
      if (left > 0) this.#changing.set(name, left);
      else this.#changing.delete(name);
    };
    try {
      await this.revoke(name);
      const release = await this.answerAlone(name);
      return () => {
        done();
        release();
      };
    } catch (error) {
      done();
      throw error;
    }
  }

  /** No other storage answers for the file until the function that this gives is called. */
  async answerAlone(name: string): Promise<() => void> {
    const { guests } = this.#parts;
    if (!guests) return () => {};
    return guests.takeBack(this.pathOf(name), () => this.records.find(name)?.guest);
  }

  /** Opens a file at I/O servers, as it is now. */
  readDataFile(record: FileRecord): DataFile {
    return this.#dataFilesFor(record).read(record);
  }

  changeDataFile(record: FileRecord): StripedFile {
    return this.#dataFilesFor(record).change(record);
  }

  /** A file at I/O servers has become what `file` is by now; durable with the next commit. */
  recordChange(name: string, file: StripedFile): void {
    const before = this.records.find(name);
    if (!before) throw new Error(`${name} has lost its record`);
    this.#putDataFile(before, name, file, before.moves, before.moving);
  }

  /**
   * A row has been changed: its data file is made ahead if it is large enough, so that
   * it is there when the file outgrows `limitBytes`.
   */
  prepareToGrow(name: string, size: number, limitBytes: number): void {
    if (size > limitBytes * this.#parts.preMigrationShare) this.dataFiles?.ahead.make(name);
    else this.dataFiles?.ahead.drop(name);
  }

  /** The record goes, with the parts of its data file; durable with the next commit. */
  remove(record: FileRecord): void {
    this.records.remove(record.name);
    this.dataFiles?.ahead.drop(record.name);
    this.#release(record);
  }

  /** The content becomes the file's row; durable with the next commit. */
  async becomeRow(name: string, { bytes, mtimeSeconds }: NewContent): Promise<void> {
    await this.#replace(name, (before, moves, moving) => {
      const sum = crc32(bytes);
      const size = bytes.length;
      const hasMoved = moving || (before !== undefined && before.place !== Place.row);
      this.records.put(
        {
          name,
          place: Place.row,
          size,
          mtimeSeconds,
          crc32: sum,
          moves: moves + (hasMoved ? 1 : 0),
          moving,
        },
        bytes,
      );
      this.#release(before);
    });
  }

  /** What was written to I/O servers, synced, is the file from now on; durable with the next commit. */
  async becomeDataFile(name: string, file: StripedFile): Promise<void> {
    await this.#replace(name, (before, moves, moving) => {
      const hasMoved = before?.place === Place.row;
      this.#putDataFile(before, name, file, moves + (hasMoved ? 1 : 0), moving);
    });
    await file.close();
  }

  /** Puts a record in the place of what there is; a file on this disk goes after that. */
  async #replace(
    name: string,
    put: (before: FileRecord | undefined, moves: number, moving: boolean) => void,
  ): Promise<void> {
    const before = this.records.find(name);
    const onDisk = before
      ? before.place === Place.file
      : await this.#parts.disk.exists(this.pathOf(name));
    const metadata = onDisk && !before ? await this.#metadataBeside(name) : undefined;
    put(before, before?.moves ?? 0, onDisk);
    if (metadata) this.records.setMetadata(name, metadata);
    if (!onDisk) return;
    await this.records.commit();
    await this.#finishWithoutLocalFile(name);
  }

  /** A file on the disk, whole and synced, gets the name; its row, if it has one, goes. */
  async becomeFile(name: string, temporary: string, mtimeSeconds: number): Promise<void> {
    const { disk } = this.#parts;
    const path = this.pathOf(name);
    const before = this.records.find(name);
    if (before && before.place !== Place.file) {
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
  async growOut(record: FileRecord, content: NewContent): Promise<FileRecord> {
    const file = await this.#copyToServers(record.name, content);
    if (file) {
      const { moves } = record;
      this.#putDataFile(record, record.name, file, moves + 1, false);
      await file.close();
    } else {
      await this.#growOutHere(record, content);
    }
    await this.records.commit();
    this.#step('switched', record.name);
    this.#parts.onMoved(this.pathOf(record.name));
    return this.records.find(record.name)!;
  }

  async #growOutHere(record: FileRecord, content: NewContent): Promise<void> {
    this.records.setMoving(record.name, true);
    await this.records.commit();
    this.#step('marked', record.name);
    const temporary = await this.#copyOut(record.name, content);
    await this.becomeFile(record.name, temporary, content.mtimeSeconds);
  }

  /** Moves a file from its row into a data file, on I/O servers if there are any. */
  moveToFile(name: string): Promise<MoveOutcome> {
    return this.#move(name, [Place.row], async (record, move) => {
      const content = { bytes: this.records.bytes(name)!, mtimeSeconds: record.mtimeSeconds };
      const file = await this.#copyToServers(name, content);
      if (file) return this.#switchToServers(record, file, move);
      this.records.setMoving(name, true);
      await this.records.commit();
      this.#step('marked', name);
      const temporary = await this.#copyOut(name, content);
      if (move.revoked) {
        await this.#parts.disk.unlink(temporary);
        return this.#takeBack(name);
      }
      const path = this.pathOf(name);
      await this.#parts.disk.rename(temporary, path);
      await this.#parts.disk.syncDirectory(dirname(path));
      this.#step('named', name);
      if (move.revoked) {
        await this.#deleteLocalFile(name);
        return this.#takeBack(name);
      }
      this.#switchToFile(record, record.size, record.mtimeSeconds);
      await this.records.commit();
      this.#step('switched', name);
      return 'moved';
    });
  }

  /**
   * Moves a file from its row to a metadata server of another group. The place there is
   * written down as superfluous first, and struck out with the switch: whatever crashes,
   * the bytes are where the record says, and nowhere else for long.
   */
  moveToGuest(name: string, target: HomeId, loadBytes: number): Promise<MoveOutcome> {
    return this.#move(name, [Place.row], async (record, move) => {
      const { guests } = this.#parts;
      // Who has taken bytes in does not send them on: no record leads to another record.
      if (!guests || isGuestBase(basename(name))) return 'refused';
      if (this.records.waitingDepartures >= MAX_DEPARTURES) return 'refused';
      const place = guests.newPlace(name, target);
      try {
        this.records.addDeparture(place);
        await this.records.commit();
        this.#step('marked', name);
        await guests.store(place, this.records.bytes(name)!, loadBytes);
        this.#step('copied', name);
        await guests.read(place, record.size, record.crc32);
        this.#step('verified', name);
        if (move.revoked) return 'revoked';
        const moves = record.moves + 1;
        this.records.put({ ...record, place: Place.guest, moves, guest: place }, undefined);
        this.records.removeDeparture(place);
        await this.records.commit();
        this.#step('switched', name);
        return 'moved';
      } catch (error) {
        // It is away, or does not want it; the next interval decides anew.
        if (!isRefusal(error)) throw error;
        return move.revoked ? 'revoked' : 'refused';
      } finally {
        guests.settled(place);
      }
    });
  }

  /** The bytes that another metadata server has, held against the record. */
  readGuest({ name, guest, size, crc32: checksum }: FileRecord): Promise<Buffer> {
    const { guests } = this.#parts;
    if (!guests || guest === undefined) {
      return Promise.reject(new Error(`${name} is with another server, and there is none`));
    }
    return guests.read(guest, size, checksum);
  }

  /**
   * Begins to move a file to I/O servers for a client that appends so much to it that it
   * will outgrow `limitBytes(moves)`; undefined if it will not, is being moved or changed,
   * or there are no servers.
   */
  async beginOnward(
    name: string,
    bytes: number,
    limitBytes: (moves: number) => number,
  ): Promise<OnwardMove | undefined> {
    const record = this.records.find(name);
    if (record?.place !== Place.row || record.size + bytes <= limitBytes(record.moves)) {
      return undefined;
    }
    if (this.#moves.has(name) || this.#changing.has(name)) return undefined;
    let ended = (): void => {};
    const done = new Promise<void>((resolve) => {
      ended = resolve;
    });
    const move: Move = { revoked: false, done };
    this.#moves.set(name, move);
    const end = (): void => {
      if (this.#moves.get(name) === move) this.#moves.delete(name);
      ended();
    };
    let file: StripedFile | undefined;
    try {
      const content = { bytes: this.records.bytes(name)!, mtimeSeconds: record.mtimeSeconds };
      file = await this.#copyToServers(name, content);
    } catch (error) {
      end();
      throw error;
    }
    if (!file || move.revoked) {
      if (move.revoked) this.#revokes += 1;
      end();
      await file?.close();
      return undefined;
    }
    return this.#onwardMove(record, file, move, end);
  }

  #onwardMove(record: FileRecord, file: StripedFile, move: Move, end: () => void): OnwardMove {
    const { name, size } = record;
    let isOver = false;
    const giveUp = (): void => {
      if (isOver) return;
      isOver = true;
      end();
      void file.close();
    };
    move.onRevoke = () => {
      if (!isOver) this.#revokes += 1;
      giveUp();
    };
    return {
      file,
      size,
      get isRevoked() {
        return isOver;
      },
      finish: (grown, checks, mtimeSeconds) => {
        if (isOver) return false;
        isOver = true;
        file.extended(grown, checks, mtimeSeconds);
        this.#putDataFile(record, name, file, record.moves + 1, false);
        end();
        void file.close();
        this.#parts.onMoved(this.pathOf(name));
        return true;
      },
      giveUp,
    };
  }

  /** Moves a file from its data file, or from another server, into a row, if it is no larger than `limitBytes`. */
  moveToRow(name: string, limitBytes: number): Promise<MoveOutcome> {
    return this.#move(name, [Place.file, Place.servers, Place.guest], async (record, move) => {
      const content = await this.#copyIn(record, limitBytes);
      if (!content || move.revoked) return content ? 'revoked' : 'refused';
      this.#step('copied', name);
      if (record.place === Place.guest) (await this.answerAlone(name))();
      const metadata = this.records.find(name) ? undefined : await this.#metadataBeside(name);
      // From here to the commit nobody comes in between.
      if (move.revoked) return 'revoked';
      const before = this.records.find(name);
      const sum = crc32(content.bytes);
      const wasHere = record.place === Place.file;
      this.records.put(
        {
          name,
          place: Place.row,
          size: content.bytes.length,
          mtimeSeconds: content.mtimeSeconds,
          crc32: sum,
          moves: (before?.moves ?? 0) + 1,
          moving: wasHere,
        },
        content.bytes,
      );
      if (metadata) this.records.setMetadata(name, metadata);
      if (crc32(this.records.bytes(name)!) !== sum) {
        if (before) this.records.put(before, undefined);
        else this.records.remove(name);
        throw new Error(`the row of ${name} does not hold what was put into it`);
      }
      this.#release(before);
      await this.records.commit();
      this.#step('switched', name);
      if (wasHere) await this.#finishWithoutLocalFile(name);
      return 'moved';
    });
  }

  async #move(
    name: string,
    from: readonly Place[],
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
      if (!record || !from.includes(record.place)) return 'refused';
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
    const { name } = before;
    const moves = before.moves + (before.place === Place.row ? 1 : 0);
    this.records.put(
      { name, place: Place.file, size, mtimeSeconds, crc32: 0, moves, moving: false },
      undefined,
    );
    this.#release(before);
  }

  /** The copy is at the servers: the record says so, unless the move was revoked. */
  async #switchToServers(record: FileRecord, file: StripedFile, move: Move): Promise<MoveOutcome> {
    const { name, moves } = record;
    if (move.revoked) {
      await file.close();
      return 'revoked';
    }
    this.#putDataFile(record, name, file, moves + 1, false);
    await file.close();
    await this.records.commit();
    this.#step('switched', name);
    return 'moved';
  }

  #putDataFile(
    before: FileRecord | undefined,
    name: string,
    file: StripedFile,
    moves: number,
    moving: boolean,
  ): void {
    const { layout, size, mtimeSeconds } = file;
    const rest = { size, mtimeSeconds, moves, moving };
    this.records.put({ place: Place.servers, ...dataRecord(name, layout, rest) }, undefined);
    file.recorded();
    if (before?.layout?.handle !== layout.handle) this.#release(before);
  }

  /** What a record was of at other servers is to be deleted there. */
  #release(before: FileRecord | undefined): void {
    if (before?.guest !== undefined) this.records.addDeparture(before.guest);
    if (before?.layout) this.dataFiles?.release(before.layout);
  }

  #dataFilesFor({ name }: FileRecord): DataFiles {
    if (!this.dataFiles) throw new Error(`${name} is at I/O servers, and there are none`);
    return this.dataFiles;
  }

  /**
   * Writes the content to I/O servers, read back there and synced; undefined if there
   * are none that take it: then it stays on this disk.
   */
  async #copyToServers(
    name: string,
    { bytes, mtimeSeconds }: NewContent,
  ): Promise<StripedFile | undefined> {
    for (let attempt = 0; attempt < MAX_COPY_ATTEMPTS; attempt += 1) {
      let file: StripedFile | undefined;
      try {
        file = await this.dataFiles?.beginMove(name, { bytes: bytes.length, mtimeSeconds });
        if (!file) return undefined;
        await file.writeAt([bytes], 0);
        await file.sync();
        this.#step('copied', name);
        this.#step('verified', name);
        return file;
      } catch (error) {
        await file?.close();
        if (!(error instanceof StatusError)) throw error;
      }
    }
    return undefined;
  }

  async #finishWithoutLocalFile(name: string): Promise<void> {
    await this.#deleteLocalFile(name);
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

  async #copyIn(record: FileRecord, limitBytes: number): Promise<NewContent | undefined> {
    const { name } = record;
    if (record.place === Place.guest) {
      if (record.size > limitBytes) return undefined;
      return { bytes: await this.readGuest(record), mtimeSeconds: record.mtimeSeconds };
    }
    const file =
      record.place === Place.servers
        ? this.readDataFile(record)
        : await this.#parts.disk.openToRead(this.pathOf(name));
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

  async #deleteLocalFile(name: string): Promise<void> {
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

/** The other server is away, busy, or will not have it. */
function isRefusal(error: unknown): boolean {
  return (
    error instanceof StatusError ||
    error instanceof ConnectionError ||
    error instanceof AuthenticationError ||
    hasCode(error, 'ECONNREFUSED') ||
    hasCode(error, 'ECONNRESET')
  );
}

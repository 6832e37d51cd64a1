import { dirname } from 'node:path';
import { crc32 } from 'node:zlib';
import type { Disk } from '@stevedore/disk';
import type { HomeId } from '../guests/guest-hosts.js';
import type { Guests } from '../guests/guests.js';
import type { DataFile } from '../io-tier/data-file.js';
import type { DataFiles } from '../io-tier/data-files.js';
import type { StripedFile } from '../io-tier/striped-file.js';
import { Place } from './constants.js';
import { LocalFiles } from './local-files.js';
import type { MoveOutcome, MoveStep, NewContent } from './move.js';
import { MovesUnderWay } from './moves-under-way.js';
import { beginOnward, type OnwardMove } from './onward-move.js';
import type { FileRecord } from './record-row.js';
import type { Records } from './records.js';
import { copyToServers } from './server-copies.js';
import { Switches } from './switches.js';
import { TierMoves } from './tier-moves.js';

/**
 * The files of one store path: what they become when they are stored or changed, and the
 * way to their moves, which tier-moves.ts makes. Whoever changes or deletes a file revokes
 * its move first and waits until nothing of it is left. Readers are not held up: they have
 * the old copy.
 */

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

export class Tier {
  readonly records: Records;
  readonly data: string;
  readonly dataFiles: DataFiles | undefined;
  readonly #parts: TierParts;
  readonly #local: LocalFiles;
  readonly #switches: Switches;
  readonly #underWay = new MovesUnderWay();
  readonly #moves: TierMoves;

  constructor(parts: TierParts) {
    const { records, dataFiles, guests, onStep } = parts;
    this.#parts = parts;
    this.records = records;
    this.data = parts.data;
    this.dataFiles = dataFiles;
    this.#local = new LocalFiles(parts);
    this.#switches = new Switches({ records, dataFiles, onStep, local: this.#local });
    this.#moves = new TierMoves({
      records,
      dataFiles,
      guests,
      onStep,
      local: this.#local,
      switches: this.#switches,
      underWay: this.#underWay,
      read: {
        dataFile: (record) => this.readDataFile(record),
        guest: (record) => this.readGuest(record),
      },
      answerAlone: (name) => this.answerAlone(name),
      onMoved: (name) => parts.onMoved(this.pathOf(name)),
    });
  }

  /** Moves that a change of their file has ended. */
  get revokes(): number {
    return this.#underWay.revokes;
  }

  pathOf(name: string): string {
    return this.#local.pathOf(name);
  }

  /** Removes what moves have left that did not end; to be called before anything else. */
  async recover(): Promise<void> {
    for (const { name, place } of this.records.moving()) {
      if (place !== Place.file) await this.#local.delete(name);
      this.records.setMoving(name, false);
    }
    await this.records.commit();
  }

  /** Ends a move of the file that is under way, and waits until it has ended. */
  revoke(name: string): Promise<void> {
    return this.#underWay.revoke(name);
  }

  /** Nobody moves the file, or answers for it, until the function that this gives is called. */
  async beginChange(name: string): Promise<() => void> {
    const done = this.#underWay.change(name);
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

  /** Moves a file from its row into a data file, on I/O servers if there are any. */
  moveToFile(name: string): Promise<MoveOutcome> {
    return this.#moves.toFile(name);
  }

  /** Moves a file from its row to a metadata server of another group. */
  moveToGuest(name: string, target: HomeId, loadBytes: number): Promise<MoveOutcome> {
    return this.#moves.toGuest(name, target, loadBytes);
  }

  /** Moves a file into a row, if it is no larger than `limitBytes`. */
  moveToRow(name: string, limitBytes: number): Promise<MoveOutcome> {
    return this.#moves.toRow(name, limitBytes);
  }

  /** Begins a move that a client carries on; see onward-move.ts. */
  beginOnward(
    name: string,
    bytes: number,
    limitBytes: (moves: number) => number,
  ): Promise<OnwardMove | undefined> {
    const { records, dataFiles, onStep, onMoved } = this.#parts;
    const parts = {
      records,
      dataFiles,
      onStep,
      switches: this.#switches,
      underWay: this.#underWay,
      onMoved: (moved: string) => onMoved(this.pathOf(moved)),
    };
    return beginOnward(parts, name, bytes, limitBytes);
  }

  /** The bytes that another metadata server has, held against the record. */
  readGuest({ name, guest, size, crc32: checksum }: FileRecord): Promise<Buffer> {
    const { guests } = this.#parts;
    if (!guests || guest === undefined) {
      return Promise.reject(new Error(`${name} is with another server, and there is none`));
    }
    return guests.read(guest, size, checksum);
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
    this.#switches.toServers(before, name, file, before);
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
    this.#switches.release(record);
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
      this.#switches.release(before);
    });
  }

  /** What was written to I/O servers, synced, is the file from now on; durable with the next commit. */
  async becomeDataFile(name: string, file: StripedFile): Promise<void> {
    await this.#replace(name, (before, moves, moving) => {
      const hasMoved = before?.place === Place.row;
      this.#switches.toServers(before, name, file, { moves: moves + (hasMoved ? 1 : 0), moving });
    });
    await file.close();
  }

  /** Puts a record in the place of what there is; a file on this disk goes after that. */
  async #replace(
    name: string,
    put: (before: FileRecord | undefined, moves: number, moving: boolean) => void,
  ): Promise<void> {
    const before = this.records.find(name);
    const onDisk = before ? before.place === Place.file : await this.#local.exists(name);
    const metadata = onDisk && !before ? await this.#local.metadataBeside(name) : undefined;
    put(before, before?.moves ?? 0, onDisk);
    if (metadata) this.records.setMetadata(name, metadata);
    if (!onDisk) return;
    await this.records.commit();
    await this.#switches.finishWithoutLocalFile(name);
  }

  /** A file on the disk, whole and synced, gets the name; its row, if it has one, goes. */
  async becomeFile(name: string, temporary: string, mtimeSeconds: number): Promise<void> {
    const { disk } = this.#parts;
    const path = this.pathOf(name);
    const before = this.records.find(name);
    if (before && before.place !== Place.file) {
      this.records.setMoving(name, true);
      await this.records.commit();
      this.#parts.onStep('marked', name);
    }
    await disk.rename(temporary, path);
    if (!before) return;
    await disk.syncDirectory(dirname(path));
    this.#parts.onStep('named', name);
    this.#switches.toFile(before, (await this.#local.sizeOf(name)) ?? before.size, mtimeSeconds);
  }

  /** The content of a changed row is too large for one: it becomes a data file, durably. */
  async growOut(record: FileRecord, content: NewContent): Promise<FileRecord> {
    const file = await copyToServers(this.dataFiles, record.name, content, this.#parts.onStep);
    if (file) {
      const { moves } = record;
      this.#switches.toServers(record, record.name, file, { moves: moves + 1, moving: false });
      await file.close();
    } else {
      await this.#growOutHere(record, content);
    }
    await this.records.commit();
    this.#parts.onStep('switched', record.name);
    this.#parts.onMoved(this.pathOf(record.name));
    return this.records.find(record.name)!;
  }

  async #growOutHere(record: FileRecord, content: NewContent): Promise<void> {
    this.records.setMoving(record.name, true);
    await this.records.commit();
    this.#parts.onStep('marked', record.name);
    const temporary = await this.#local.copyOut(record.name, content);
    await this.becomeFile(record.name, temporary, content.mtimeSeconds);
  }

  #dataFilesFor({ name }: FileRecord): DataFiles {
    if (!this.dataFiles) throw new Error(`${name} is at I/O servers, and there are none`);
    return this.dataFiles;
  }
}

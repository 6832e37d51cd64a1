import { dirname } from 'node:path';
import { crc32 } from 'node:zlib';
import { heated } from '@stevedore/balance';
import type { Disk } from '@stevedore/disk';
import { chunksOf, type ReadableFile } from '@stevedore/storage';
import { LocalFiles } from './local-files.js';
import { type FileRecord, Place } from './record-rows.js';
import type { Records } from './records.js';
import { openRemote, type RemoteFiles } from './remote-files.js';
import { MovesUnderWay, TierMoves } from './tier-moves.js';

/**
 * The files of one store path: what they become when stored or changed. tier-moves.ts moves them. A
 * change or deletion first cancels a move of the file and waits until it has cleaned up. Readers
 * are not held up: they keep the old copy.
 */

export interface TierParts {
  readonly disk: Disk;
  /** Of the store path. */
  readonly path: string;
  /** The data directory, with a trailing separator. */
  readonly data: string;
  readonly records: Records;
  /** Undefined: no file goes to another group. */
  readonly remote: RemoteFiles | undefined;
  readonly now: () => number;
}

export interface NewContent {
  readonly bytes: Buffer;
  readonly mtimeSeconds: number;
}

export class Tier {
  readonly records: Records;
  readonly data: string;
  readonly moves: TierMoves;
  readonly #parts: TierParts;
  readonly local: LocalFiles;
  readonly #underWay = new MovesUnderWay();
  #onMoved: (path: string) => void = () => {};

  constructor(parts: TierParts) {
    const { records, remote, now } = parts;
    this.#parts = parts;
    this.records = records;
    this.data = parts.data;
    this.local = new LocalFiles(parts);
    this.moves = new TierMoves({
      records,
      remote,
      now,
      local: this.local,
      underWay: this.#underWay,
      onMoved: (name) => this.#onMoved(this.pathOf(name)),
    });
  }

  onMoved(listener: (path: string) => void): void {
    this.#onMoved = listener;
  }

  /** Moves cancelled by a change of their file. */
  get revokes(): number {
    return this.#underWay.revokes;
  }

  pathOf(name: string): string {
    return this.local.pathOf(name);
  }

  /** Cleans up after interrupted moves; call it before anything else. */
  async recover(): Promise<void> {
    for (const { name, place } of this.records.moving()) {
      if (place !== Place.file) await this.local.delete(name);
      this.records.setMoving(name, false);
    }
    await this.records.commit();
  }

  /** Cancels a move of the file; it does not move until the returned function is called. */
  async beginChange(name: string): Promise<() => void> {
    const done = this.#underWay.change(name);
    await this.#underWay.revoke(name);
    return done;
  }

  /** Opens the bytes in another group. */
  openRemote(record: FileRecord): ReadableFile {
    return openRemote(this.#parts.remote, record);
  }

  /** Removes the record and, with it, the copy in another group; durable with the next commit. */
  remove({ name, remote }: FileRecord): void {
    this.records.remove(name);
    if (remote !== undefined) this.moves.deleteLater(remote);
  }

  /** Makes the content the file's row, replacing what it was; durable with the next commit. */
  becomeRow(name: string, { bytes, mtimeSeconds }: NewContent, moving = false): void {
    const sum = { size: bytes.length, crc32: crc32(bytes) };
    this.#put(name, { place: Place.row, ...sum, mtimeSeconds, moving }, bytes);
  }

  /**
   * Makes the content the row of a file that may be on disk; that file is removed. Durable if it
   * was, else with the next commit.
   */
  async replaceByRow(name: string, content: NewContent): Promise<void> {
    const before = this.records.find(name);
    const onDisk = before ? before.place === Place.file : await this.local.exists(name);
    if (!onDisk) return this.becomeRow(name, content);
    const metadata = before ? undefined : await this.local.metadataBeside(name);
    this.becomeRow(name, content, true);
    if (metadata) this.records.setMetadata(name, metadata);
    await this.records.commit();
    await this.local.delete(name);
    this.records.setMoving(name, false);
    await this.records.commit();
  }

  /**
   * Gives a complete, synced file on disk its name. If a record says that the bytes are elsewhere,
   * it is switched, durably.
   */
  async becomeFile(name: string, temporary: string, mtimeSeconds: number): Promise<void> {
    const { disk } = this.#parts;
    const before = this.records.find(name);
    if (!before) return disk.rename(temporary, this.pathOf(name));
    if (before.place === Place.file) {
      await disk.rename(temporary, this.pathOf(name));
      await disk.syncDirectory(dirname(this.pathOf(name)));
    } else {
      this.records.setMoving(name, true);
      await this.records.commit();
      try {
        await this.local.giveName(name, temporary);
      } catch (error) {
        this.records.setMoving(name, false);
        throw error;
      }
    }
    const size = (await this.local.statOf(name))?.size ?? before.size;
    this.#put(name, { place: Place.file, size, mtimeSeconds, crc32: 0, moving: false });
    await this.records.commit();
    this.#onMoved(this.pathOf(name));
  }

  /** Brings a file from another group to this disk; call it only while changing the file. */
  async bringHome(record: FileRecord): Promise<void> {
    const file = this.openRemote(record);
    const temporary = await this.local.copyOut(record.name, {
      ...record,
      chunks: () => chunksOf(file, record.size),
    });
    await this.becomeFile(record.name, temporary, record.mtimeSeconds);
  }

  #put(
    name: string,
    entry: Pick<FileRecord, 'place' | 'size' | 'mtimeSeconds' | 'crc32' | 'moving'>,
    bytes?: Buffer,
  ): void {
    const before = this.records.find(name);
    const hasMoved = (before?.place ?? entry.place) !== entry.place;
    const moves = (before?.moves ?? 0) + (hasMoved ? 1 : 0);
    const heat = before?.heat ?? heated(undefined, this.#parts.now());
    this.records.put({ name, ...entry, moves, heat }, bytes);
    if (before?.remote !== undefined) this.moves.deleteLater(before.remote);
  }
}

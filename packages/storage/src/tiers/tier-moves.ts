import { basename } from 'node:path';
import { crc32 } from 'node:zlib';
import { hasCode } from '@stevedore/disk';
import { AuthenticationError, ConnectionError, StatusError } from '../errors.js';
import type { HomeId } from '../guests/guest-hosts.js';
import { isGuestBase } from '../guests/guest-name.js';
import type { Guests } from '../guests/guests.js';
import type { DataFile } from '../io-tier/data-file.js';
import type { DataFiles } from '../io-tier/data-files.js';
import type { StripedFile } from '../io-tier/striped-file.js';
import { MAX_DEPARTURES, Place } from './constants.js';
import { contentOf, type LocalFiles } from './local-files.js';
import type { Move, MoveOutcome, MoveStep, NewContent } from './move.js';
import type { MovesUnderWay } from './moves-under-way.js';
import type { FileRecord } from './record-row.js';
import type { Records } from './records.js';
import { copyToServers } from './server-copies.js';
import type { Switches } from './switches.js';

/**
 * Moves of the files of one store path between row, data file and other servers. A move is
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
 * A crash leaves the record before or after the switch, and the next start removes what
 * the mark points at; what it leaves at I/O servers no record knows, and is found there.
 * Whoever changes or deletes the file revokes its move first and waits until nothing of
 * it is left. Readers are not held up: they have the old copy.
 */

export interface TierMovesParts {
  readonly records: Records;
  readonly local: LocalFiles;
  readonly switches: Switches;
  readonly underWay: MovesUnderWay;
  readonly dataFiles: DataFiles | undefined;
  readonly guests: Guests | undefined;
  readonly read: {
    dataFile(record: FileRecord): DataFile;
    guest(record: FileRecord): Promise<Buffer>;
  };
  readonly answerAlone: (name: string) => Promise<() => void>;
  readonly onStep: (step: MoveStep, name: string) => void;
  readonly onMoved: (name: string) => void;
}

export class TierMoves {
  readonly #parts: TierMovesParts;

  constructor(parts: TierMovesParts) {
    this.#parts = parts;
  }

  /** Moves a file from its row into a data file, on I/O servers if there are any. */
  toFile(name: string): Promise<MoveOutcome> {
    return this.#move(name, [Place.row], async (record, move) => {
      const { records, local, switches, dataFiles, onStep } = this.#parts;
      const content = {
        bytes: records.bytes(name)!,
        mtimeSeconds: record.mtimeSeconds,
      };
      const file = await copyToServers(dataFiles, name, content, onStep);
      if (file) return this.#switchToServers(record, file, move);
      records.setMoving(name, true);
      await records.commit();
      onStep('marked', name);
      const temporary = await local.copyOut(name, content);
      if (move.isRevoked) {
        await local.drop(temporary);
        return this.#takeBack(name);
      }
      await local.giveName(name, temporary);
      onStep('named', name);
      if (move.isRevoked) {
        await local.delete(name);
        return this.#takeBack(name);
      }
      switches.toFile(record, record.size, record.mtimeSeconds);
      await records.commit();
      onStep('switched', name);
      return 'moved';
    });
  }

  /**
   * Moves a file from its row to a metadata server of another group. The place there is
   * written down as superfluous first, and struck out with the switch: whatever crashes,
   * the bytes are where the record says, and nowhere else for long.
   */
  toGuest(name: string, target: HomeId, loadBytes: number): Promise<MoveOutcome> {
    return this.#move(name, [Place.row], async (record, move) => {
      const { records, guests, onStep } = this.#parts;
      // Who has taken bytes in does not send them on: no record leads to another record.
      if (!guests || isGuestBase(basename(name))) return 'refused';
      if (records.waitingDepartures >= MAX_DEPARTURES) return 'refused';
      const place = guests.newPlace(name, target);
      try {
        records.addDeparture(place);
        await records.commit();
        onStep('marked', name);
        await guests.store(place, records.bytes(name)!, loadBytes);
        onStep('copied', name);
        await guests.read(place, record.size, record.crc32);
        onStep('verified', name);
        if (move.isRevoked) return 'revoked';
        const moves = record.moves + 1;
        records.put({ ...record, place: Place.guest, moves, guest: place }, undefined);
        records.removeDeparture(place);
        await records.commit();
        onStep('switched', name);
        return 'moved';
      } catch (error) {
        // It is away, or does not want it; the next interval decides anew.
        if (!isRefusal(error)) throw error;
        return move.isRevoked ? 'revoked' : 'refused';
      } finally {
        guests.settled(place);
      }
    });
  }

  /** Moves a file from its data file, or from another server, into a row, if it is no larger than `limitBytes`. */
  toRow(name: string, limitBytes: number): Promise<MoveOutcome> {
    return this.#move(name, [Place.file, Place.servers, Place.guest], async (record, move) => {
      const { records, local, switches, onStep } = this.#parts;
      const content = await this.#copyIn(record, limitBytes);
      if (!content || move.isRevoked) return content ? 'revoked' : 'refused';
      onStep('copied', name);
      if (record.place === Place.guest) (await this.#parts.answerAlone(name))();
      const metadata = records.find(name) ? undefined : await local.metadataBeside(name);
      // From here to the commit nobody comes in between.
      if (move.isRevoked) return 'revoked';
      const before = records.find(name);
      const sum = crc32(content.bytes);
      const wasHere = record.place === Place.file;
      records.put(
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
      if (metadata) records.setMetadata(name, metadata);
      if (crc32(records.bytes(name)!) !== sum) {
        if (before) records.put(before, undefined);
        else records.remove(name);
        throw new Error(`the row of ${name} does not hold what was put into it`);
      }
      switches.release(before);
      await records.commit();
      onStep('switched', name);
      if (wasHere) await switches.finishWithoutLocalFile(name);
      return 'moved';
    });
  }

  async #move(
    name: string,
    from: readonly Place[],
    make: (record: FileRecord, move: Move) => Promise<MoveOutcome>,
  ): Promise<MoveOutcome> {
    const { underWay, onMoved } = this.#parts;
    const move = underWay.begin(name);
    if (!move) return 'refused';
    try {
      const record = await this.#recordOf(name);
      if (!record || !from.includes(record.place)) return 'refused';
      const outcome = await make(record, move);
      if (outcome === 'moved') onMoved(name);
      if (outcome === 'revoked') underWay.wasRevoked();
      return outcome;
    } finally {
      move.end();
    }
  }

  /** A data file without a record is one all the same. */
  async #recordOf(name: string): Promise<FileRecord | undefined> {
    const record = this.#parts.records.find(name);
    if (record) return record;
    const size = await this.#parts.local.sizeOf(name);
    if (size === undefined) return undefined;
    const rest = { mtimeSeconds: 0, crc32: 0, moves: 0, moving: false };
    return { name, place: Place.file, size, ...rest };
  }

  /** The copy is at the servers: the record says so, unless the move was revoked. */
  async #switchToServers(record: FileRecord, file: StripedFile, move: Move): Promise<MoveOutcome> {
    const { name, moves } = record;
    if (move.isRevoked) {
      await file.close();
      return 'revoked';
    }
    this.#parts.switches.toServers(record, name, file, { moves: moves + 1, moving: false });
    await file.close();
    await this.#parts.records.commit();
    this.#parts.onStep('switched', name);
    return 'moved';
  }

  async #takeBack(name: string): Promise<MoveOutcome> {
    this.#parts.records.setMoving(name, false);
    await this.#parts.records.commit();
    return 'revoked';
  }

  async #copyIn(record: FileRecord, limitBytes: number): Promise<NewContent | undefined> {
    const { name } = record;
    if (record.place === Place.guest) {
      if (record.size > limitBytes) return undefined;
      return { bytes: await this.#parts.read.guest(record), mtimeSeconds: record.mtimeSeconds };
    }
    if (record.place === Place.servers) {
      return contentOf(this.#parts.read.dataFile(record), name, limitBytes);
    }
    return this.#parts.local.read(name, limitBytes);
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

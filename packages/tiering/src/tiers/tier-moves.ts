import { crc32 } from 'node:zlib';
import { heated } from '@stevedore/balance';
import { chunksOf } from '@stevedore/storage';
import { StatusError } from '@stevedore/wire';
import type { CopySource, LocalFiles } from './local-files.js';
import { type FileRecord, MAX_OPEN_COPIES, MAX_UNWANTED, Place } from './record-rows.js';
import type { Records } from './records.js';
import {
  isCopy,
  isMovedName,
  openRemote,
  RemoteError,
  type RemoteFiles,
  tagOf,
} from './remote-files.js';

/**
 * Moves of the files of one store path. A move is copy, verify, switch, delete. The record
 * says at every moment where the bytes are; the switch is one transaction:
 *
 *   row -> file         mark, copy under a temporary name, give it its name, switch
 *   file -> row         copy into the row, switch and mark, delete the file, unmark
 *   row, file -> remote   record that a copy begins, upload, switch and delete that record
 *                       (a file: mark with the switch, delete it, unmark)
 *   remote -> row, file   as above, and list the copy for deletion with the switch
 *
 * A crash leaves the record before or after the switch. The next start removes the file
 * that a mark points at, and looks for copies whose outcome is unknown; see upkeep.ts.
 */

export type MoveOutcome = 'moved' | 'revoked' | 'refused';

export interface TierMovesParts {
  readonly records: Records;
  readonly local: LocalFiles;
  readonly underWay: MovesUnderWay;
  /** Undefined: no file goes to another group. */
  readonly remote: RemoteFiles | undefined;
  readonly now: () => number;
  readonly onMoved: (name: string) => void;
}

export class TierMoves {
  readonly #parts: TierMovesParts;
  readonly #tag: string;
  /** Copies that this process is making. */
  readonly #copying = new Set<number>();

  constructor(parts: TierMovesParts) {
    this.#parts = parts;
    this.#tag = tagOf(parts.records.owner);
  }

  /** True while the copy is being made, so that it is no orphan. */
  isCopying(id: number): boolean {
    return this.#copying.has(id);
  }

  /** Moves a file from its row into a file on this disk. */
  toFile(name: string): Promise<MoveOutcome> {
    return this.#move(name, [Place.row], (record, move) => this.#toFile(record, move));
  }

  /** Brings a file home, into a row if it is at most `limitBytes`; from a file, only then. */
  home(name: string, limitBytes: number): Promise<MoveOutcome> {
    return this.#move(name, [Place.file, Place.remote], async (record, move) => {
      if (record.size <= limitBytes) return this.#toRow(record, move);
      return record.place === Place.remote ? this.#toFile(record, move) : 'refused';
    });
  }

  /** Moves a file into another group. */
  toGroup(name: string, group: string): Promise<MoveOutcome> {
    return this.#move(name, [Place.row, Place.file], async (record, move) => {
      const { records, remote } = this.#parts;
      if (!remote || isMovedName(name) || record.size === 0) return 'refused';
      if (records.unwantedCopies >= MAX_UNWANTED) return 'refused';
      if (records.openCopies().length >= MAX_OPEN_COPIES) return 'refused';
      const source = await this.#sourceOf(record);
      const id = await this.#copyTo(group, source, remote);
      return this.#switchTo({ ...record, crc32: source.crc32 }, id, move);
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
      if (outcome === 'revoked') underWay.revokes += 1;
      return outcome;
    } catch (error) {
      // The other group is away, full or busy: the next interval decides again.
      if (error instanceof RemoteError || error instanceof StatusError) return 'refused';
      throw error;
    } finally {
      move.end();
    }
  }

  /** The record of the file; for a file on disk without one, a record of its size and time. */
  async #recordOf(name: string): Promise<FileRecord | undefined> {
    const { records, local } = this.#parts;
    const record = records.find(name);
    if (record && record.place !== Place.file) return record;
    const stat = await local.statOf(name);
    if (!stat) return undefined;
    const { size, mtimeSeconds } = stat;
    const heat = heated(undefined, this.#parts.now());
    const none = { name, place: Place.file, crc32: 0, moves: 0, moving: false, heat };
    return { ...none, ...record, size, mtimeSeconds };
  }

  /** The content to copy, with the size and CRC-32 of the copy. Throws if the row is damaged. */
  async #sourceOf(record: FileRecord): Promise<CopySource> {
    const { records, local, remote } = this.#parts;
    const { name, size, mtimeSeconds } = record;
    const about = { size, mtimeSeconds, crc32: record.crc32 };
    if (record.place === Place.row) {
      const bytes = records.bytes(name);
      if (!bytes || crc32(bytes) !== record.crc32) throw new Error(`the row of ${name} is damaged`);
      return { ...about, chunks: () => one(bytes) };
    }
    if (record.place === Place.remote) {
      const file = openRemote(remote, record);
      return { ...about, chunks: () => chunksOf(file, size) };
    }
    const chunks = async function* (): AsyncGenerator<Buffer> {
      const file = await local.open(name);
      try {
        yield* chunksOf(file, size);
      } finally {
        await file.close();
      }
    };
    let sum = 0;
    for await (const chunk of chunks()) sum = crc32(chunk, sum);
    return { ...about, crc32: sum, chunks };
  }

  async #toFile(record: FileRecord, move: Move): Promise<MoveOutcome> {
    const { records, local } = this.#parts;
    const { name } = record;
    records.setMoving(name, true);
    await records.commit();
    try {
      const temporary = await local.copyOut(name, await this.#sourceOf(record));
      if (move.isRevoked) {
        await local.drop(temporary);
        return await this.#rollBackMove(name);
      }
      await local.giveName(name, temporary);
    } catch (error) {
      await this.#rollBackMove(name);
      throw error;
    }
    if (move.isRevoked) {
      await local.delete(name);
      return this.#rollBackMove(name);
    }
    this.#put(record, { place: Place.file, crc32: 0, moving: false, remote: undefined });
    await records.commit();
    return 'moved';
  }

  async #toRow(record: FileRecord, move: Move): Promise<MoveOutcome> {
    const { records, local } = this.#parts;
    const { name } = record;
    const source = await this.#sourceOf(record);
    const chunks: Buffer[] = [];
    for await (const chunk of source.chunks()) chunks.push(chunk);
    const bytes = Buffer.concat(chunks);
    if (crc32(bytes) !== source.crc32) throw new Error(`${name} is damaged`);
    const metadata = records.find(name) ? undefined : await local.metadataBeside(name);
    // From here to the commit no other change comes in between.
    if (move.isRevoked) return 'revoked';
    const moving = record.place === Place.file;
    this.#put(record, { place: Place.row, crc32: source.crc32, moving, remote: undefined }, bytes);
    if (metadata) records.setMetadata(name, metadata);
    await records.commit();
    if (moving) await this.#deleteLocal(name);
    return 'moved';
  }

  /** Stores a copy in another group. It is listed as open until its outcome is recorded. */
  async #copyTo(group: string, source: CopySource, remote: RemoteFiles): Promise<Copied> {
    const { records, now } = this.#parts;
    const { size, crc32: sum } = source;
    const sinceSeconds = Math.floor(now() / 1000);
    const copy = records.beginCopy({ target: group, size, crc32: sum, sinceSeconds });
    this.#copying.add(copy);
    try {
      await records.commit();
      const id = await remote.store(group, this.#tag, source);
      if (!isCopy(id, size, sum)) {
        this.#endUnused(copy, id);
        throw new Error(`${id} does not hold what was written into it`);
      }
      return { copy, id };
    } catch (error) {
      this.#copying.delete(copy);
      if (error instanceof RemoteError && !error.mayBeThere) records.endCopy(copy);
      throw error;
    }
  }

  async #switchTo(record: FileRecord, { copy, id }: Copied, move: Move): Promise<MoveOutcome> {
    const { records } = this.#parts;
    const { name } = record;
    let metadata: Buffer | undefined;
    try {
      if (!records.find(name)) metadata = await this.#parts.local.metadataBeside(name);
    } catch (error) {
      this.#endUnused(copy, id);
      throw error;
    }
    const isRevoked = move.isRevoked;
    const moving = record.place === Place.file;
    if (isRevoked) this.deleteLater(id);
    else this.#put(record, { place: Place.remote, crc32: record.crc32, moving, remote: id });
    if (metadata && !isRevoked) records.setMetadata(name, metadata);
    records.endCopy(copy);
    this.#copying.delete(copy);
    await records.commit();
    if (isRevoked) return 'revoked';
    if (moving) await this.#deleteLocal(name);
    return 'moved';
  }

  #put(
    record: FileRecord,
    now: Pick<FileRecord, 'place' | 'crc32' | 'moving' | 'remote'>,
    bytes?: Buffer,
  ): void {
    const { records } = this.#parts;
    records.put({ ...record, ...now, moves: record.moves + 1 }, bytes);
    if (record.remote !== undefined) this.deleteLater(record.remote);
  }

  /** No record will refer to this copy. */
  #endUnused(copy: number, id: string): void {
    this.deleteLater(id);
    this.#parts.records.endCopy(copy);
    this.#copying.delete(copy);
  }

  /** Lists a copy in another group for deletion; durable with the next commit. */
  deleteLater(id: string): void {
    const { records, now } = this.#parts;
    records.addUnwanted(id, Math.floor(now() / 1000));
  }

  /** Deletes the file on this disk, which the record no longer refers to, then its mark. */
  async #deleteLocal(name: string): Promise<void> {
    const { records, local } = this.#parts;
    await local.delete(name);
    records.setMoving(name, false);
    await records.commit();
  }

  async #rollBackMove(name: string): Promise<MoveOutcome> {
    this.#parts.records.setMoving(name, false);
    await this.#parts.records.commit();
    return 'revoked';
  }
}

interface Copied {
  /** As the records list it. */
  readonly copy: number;
  readonly id: string;
}

async function* one(bytes: Buffer): AsyncGenerator<Buffer> {
  yield bytes;
}

/**
 * Which files of a store path are being moved and which are being changed. A file is not
 * moved while it is changed, nor twice at a time; a change revokes the move and waits
 * until nothing is left of it.
 */

/** A move that is under way. */
export interface Move {
  isRevoked: boolean;
  readonly ended: Promise<void>;
  /** Nothing is left of it. */
  readonly end: () => void;
}

export class MovesUnderWay {
  readonly #moves = new Map<string, Move>();
  /** How many callers are changing each file. */
  readonly #changing = new Map<string, number>();
  /** Moves that a change of their file has ended. */
  revokes = 0;

  /** Undefined if the file is being moved or changed. */
  begin(name: string): Move | undefined {
    if (this.#moves.has(name) || this.#changing.has(name)) return undefined;
    let end = (): void => {};
    const ended = new Promise<void>((resolve) => {
      end = () => {
        this.#moves.delete(name);
        resolve();
      };
    });
    const move: Move = { isRevoked: false, ended, end };
    this.#moves.set(name, move);
    return move;
  }

  /** Ends a move of the file, and waits until it has ended. */
  async revoke(name: string): Promise<void> {
    const move = this.#moves.get(name);
    if (!move) return;
    move.isRevoked = true;
    await move.ended;
  }

  /** Blocks moves of the file until the returned function is called. */
  change(name: string): () => void {
    this.#changing.set(name, (this.#changing.get(name) ?? 0) + 1);
    return () => {
      const left = (this.#changing.get(name) ?? 1) - 1;
      if (left > 0) this.#changing.set(name, left);
      else this.#changing.delete(name);
    };
  }
}

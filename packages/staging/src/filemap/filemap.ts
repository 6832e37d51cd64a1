import { setTimeout as sleep } from 'node:timers/promises';
import { applySchema, openDatabase, type SqliteDatabase } from '@stevedore/disk/sqlite';
import { LOST_SEGMENT } from '../container/constants.js';
import type { FileMapChange, PlannedMember } from './changes.js';
import { Checkpoints, LOG_PAGES } from './checkpoints.js';
import type { Counters } from './counters.js';
import { FileMapQueries } from './queries.js';
import type { AdoptedFile, DamagedCopy, TrunkRow } from './rows.js';
import { FILEMAP_SCHEMA } from './schema.js';
import { prepareStatements } from './statements.js';
import { FileMapWriter } from './writer.js';

export * from './rows.js';

/**
 * The FileMap: an index over container and trunks. Every change comes from a
 * record of the container and is committed together with how far the record's
 * segment is indexed, so that a FileMap that lost its last transactions, or all
 * of them, is brought up to date by reading records again. It need not sync by
 * itself for that; `checkpoint` makes it durable before segments are removed.
 */

const CACHE_KIB = 32 * 1024;
const CHECKPOINT_ATTEMPTS = 10_000;
const CHECKPOINT_PAUSE_MS = 3;

export class FileMap extends FileMapQueries {
  readonly #database: SqliteDatabase;
  readonly #checkpoints: Checkpoints;
  readonly #transact: (work: (writer: FileMapWriter) => void) => void;

  private constructor(database: SqliteDatabase) {
    super(prepareStatements(database));
    this.#database = database;
    this.#checkpoints = new Checkpoints(database.name);
    this.#transact = database.transaction((work: (writer: FileMapWriter) => void) => {
      const writer = new FileMapWriter(this.statements);
      work(writer);
      writer.finish();
    });
  }

  /** Throws when the file is no sound database; the caller moves it aside and rebuilds. */
  static open(path: string): FileMap {
    const database = openDatabase(path);
    try {
      database.pragma('journal_mode = WAL');
      database.pragma('synchronous = NORMAL');
      database.pragma(`wal_autocheckpoint = ${LOG_PAGES}`);
      database.pragma(`cache_size = -${CACHE_KIB}`);
      applySchema(database, FILEMAP_SCHEMA);
      return new FileMap(database);
    } catch (error) {
      database.close();
      throw error;
    }
  }

  /**
   * All changes of one segment's records up to byte `indexedBytes`, in one transaction;
   * so many of the segment's bytes are known to be on the medium.
   */
  apply(
    changes: readonly FileMapChange[],
    segment: number,
    indexedBytes: number,
    syncedBytes = 0,
  ): void {
    this.#write(changes.length, (writer) => {
      for (const change of changes) writer.change(change, segment);
      this.statements.setIndexed.run(segment, indexedBytes, syncedBytes);
    });
  }

  /** Points the members' rows at the trunk; those deleted meanwhile become its dead bytes. */
  confirmMembers(trunk: number, members: readonly PlannedMember[]): void {
    this.#write(members.length, (writer) => writer.confirmMembers(trunk, members));
  }

  /** As `confirmMembers`, for a trunk of an earlier process: some may have moved on since. */
  confirmUnmoved(trunk: TrunkRow, members: readonly PlannedMember[]): void {
    this.#write(members.length, (writer) => writer.confirmUnmoved(trunk, members));
  }

  /** Rows for members of a trunk that only its own directory still tells about. */
  adoptMembers(trunk: TrunkRow, entries: readonly AdoptedFile[]): void {
    this.#write(entries.length, (writer) => writer.adoptMembers(trunk, entries));
  }

  /** The trunk is in place and every living member's row says so; the rest of it is dead. */
  finishTrunk(trunk: number, files: number, contentBytes: number): void {
    this.#write(1, (writer) => writer.finishTrunk(trunk, files, contentBytes));
  }

  /** The bytes it was moved to are lost: it is where it was before. False if that is gone. */
  takeBack(key: Buffer): boolean {
    let isBack = false;
    this.#write(1, (writer) => {
      isBack = writer.takeBack(key);
    });
    return isBack;
  }

  /** Its only bytes are lost: it keeps no segment any more. */
  loseFile(key: Buffer): void {
    this.statements.loseFile.run(LOST_SEGMENT, key);
  }

  /** The merged file's copy in the container is not to be read any more. */
  forgetLocal(key: Buffer): void {
    this.statements.forgetLocal.run(key);
  }

  /** The large file's spool file is gone. */
  forgetSpooled(key: Buffer): void {
    this.statements.forgetSpooled.run(key);
  }

  setBlocks(key: Buffer, crcs: Buffer): void {
    this.statements.setBlocks.run(key, crcs);
  }

  setCounters(counters: Counters): void {
    for (const [name, value] of Object.entries(counters)) this.statements.setCount.run(value, name);
  }

  /** The retiring trunk is gone from FastDFS. */
  retireTrunk(trunk: number): void {
    this.statements.retireTrunk.run(trunk);
  }

  /** The stored trunk is to be adopted, and FastDFS says that it has no such file. */
  missTrunk(trunk: number): void {
    this.statements.missTrunk.run(trunk);
  }

  /** It was given up; FastDFS may hold what was sent of it. */
  abandonTrunk(trunk: number, now: number): void {
    this.statements.abandonTrunk.run({ trunk, now });
  }

  /** FastDFS may hold a copy of the trunk that no record names. */
  doubt(trunk: number, now: number): void {
    this.statements.doubt.run({ trunk, now });
  }

  /** It holds none: all of it was looked through. */
  settleDoubt(trunk: number): void {
    this.statements.settleDoubt.run(trunk);
  }

  /** As many storages as asked for have it: the copies on this disk may go. */
  setCopied(trunk: number): void {
    this.statements.setCopied.run(trunk);
  }

  /** A file that is to be removed from FastDFS, however often that fails. */
  addUnwanted(fileId: string): void {
    this.statements.addUnwanted.run(fileId);
  }

  removeUnwanted(fileId: string): void {
    this.statements.removeUnwanted.run(fileId);
  }

  /** False if the copy was known to be damaged. */
  addDamage(copy: DamagedCopy): boolean {
    return this.statements.addDamage.run(copy).changes === 1;
  }

  removeDamage({ key, place, holder }: Omit<DamagedCopy, 'foundAt'>): void {
    this.statements.removeDamage.run(key, place, holder);
  }

  setMark(name: string, value: string): void {
    this.statements.setMark.run(name, value);
  }

  setSynced(segment: number, bytes: number): void {
    this.statements.setSynced.run(bytes, segment);
  }

  forgetSegment(segment: number): void {
    this.statements.forgetDeletions.run(segment);
    this.statements.forgetMarked.run(segment);
    this.statements.forgetSegment.run(segment);
  }

  /** Makes all transactions so far durable. */
  async checkpoint(): Promise<void> {
    // SQLite does not wait for another thread that is doing the same.
    for (let attempt = 0; attempt < CHECKPOINT_ATTEMPTS; attempt += 1) {
      const [result] = this.#database.pragma('wal_checkpoint(TRUNCATE)') as { busy: number }[];
      if (result?.busy === 0) return;
      await sleep(CHECKPOINT_PAUSE_MS);
    }
    throw new Error('the FileMap could not be made durable: something else has it open');
  }

  /** Resolves when nothing has the file open any more. */
  async close(): Promise<void> {
    const stopped = this.#checkpoints.stop();
    this.#database.close();
    await stopped;
  }

  /** One transaction that changes about so many rows. */
  #write(changes: number, work: (writer: FileMapWriter) => void): void {
    this.#transact(work);
    this.#checkpoints.note(changes);
  }
}

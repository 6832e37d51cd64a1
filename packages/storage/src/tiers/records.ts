import { closeSync, fdatasync, openSync } from 'node:fs';
import { promisify } from 'node:util';
import {
  applySchema,
  openDatabase,
  SqliteBindingError,
  type SqliteDatabase,
} from '@stevedore/disk/sqlite';
import { StartError } from '../errors.js';
import type { ServerAddress } from '../io-tier/known-servers.js';
import type { Layout } from '../io-tier/layout.js';
import { MAX_DELETIONS, Place } from './constants.js';
import { type FileRecord, hex, record, rowOf } from './record-row.js';
import { RECORDS_SCHEMA } from './records-schema.js';
import { type RecordStatements, recordStatements } from './records-statements.js';

/**
 * The records of a store path: where the bytes of a file are, and, for a small one,
 * the bytes and the metadata themselves, in one row of SQLite.
 *
 * Changes are seen at once by everybody and are durable after `commit`. All that was
 * changed since the last commit goes into one transaction and one sync, which does not
 * hold up the thread: SQLite writes its log without syncing it (`synchronous` NORMAL),
 * and the log is synced through a descriptor of its own. After a failed commit nobody
 * knows what is on the disk: nothing is changed any more until the next start.
 */

/** A part of a data file that nothing needs any more. */
export interface Deletion {
  readonly handle: string;
  readonly server: string;
}

/** What the records of a store path amount to. */
export interface RecordCounts {
  readonly files: number;
  readonly bytes: number;
}

const dataSync = promisify(fdatasync);

export class Records {
  readonly #db: SqliteDatabase;
  readonly #log: number;
  readonly #statements: RecordStatements;
  /** Counts changes; `#durable` of them are on the medium. */
  #changes = 0;
  #durable = 0;
  #inTransaction = false;
  #syncing: Promise<void> | undefined;
  #broken: Error | undefined;
  /** Rows of `deletions` and `departures`. */
  #deletions: number;
  #departures: number;
  /** Names this store path's data files at I/O servers. */
  readonly owner: string;

  private constructor(db: SqliteDatabase, log: number) {
    this.#db = db;
    this.#log = log;
    this.#statements = recordStatements(db);
    this.owner = this.#statements.owner.get()!.id.toString('hex');
    this.#deletions = this.#statements.countDeletions.get()!.count;
    this.#departures = this.#statements.countDepartures.get()!.count;
  }

  /** Opens or makes them; StartError if they are of a later version or damaged. */
  static open(path: string): Records {
    let db: SqliteDatabase | undefined;
    try {
      db = openDatabase(path);
      db.pragma('journal_mode = WAL');
      db.pragma('synchronous = NORMAL');
      db.pragma('wal_autocheckpoint = 4000');
      applySchema(db, RECORDS_SCHEMA);
      return new Records(db, openSync(`${path}-wal`, 'r+'));
    } catch (error) {
      db?.close();
      if (error instanceof SqliteBindingError) throw error;
      const reason = error instanceof Error ? error.message : String(error);
      throw new StartError('ERR_RECORDS', `The storage cannot use ${path}: ${reason}.`, error);
    }
  }

  find(name: string): FileRecord | undefined {
    const row = this.#statements.find.get(name);
    return row && record(row);
  }

  /** The bytes of a file whose place is the row. */
  bytes(name: string): Buffer | undefined {
    return this.#statements.bytes.get(name)?.bytes ?? undefined;
  }

  metadata(name: string): Buffer | undefined {
    return this.#statements.metadata.get(name)?.metadata ?? undefined;
  }

  hasMetadata(name: string): boolean {
    return this.#statements.hasMetadata.get(name) !== undefined;
  }

  /** Makes or replaces a record; what it has of metadata stays. `bytes` only where the place is the row. */
  put(entry: FileRecord, bytes: Buffer | undefined): void {
    const row = { ...rowOf(entry), bytes: bytes ?? null };
    this.#change(() => this.#statements.put.run(row));
  }

  /**
   * What another metadata server may have at this place is to be deleted there, once that
   * is committed.
   */
  addDeparture(place: string): void {
    this.#change(() => {
      this.#departures += this.#statements.addDeparture.run(place).changes;
    });
  }

  removeDeparture(place: string): void {
    this.#change(() => {
      this.#departures -= this.#statements.removeDeparture.run(place).changes;
    });
  }

  /** At most so many. */
  departures(most: number): string[] {
    return this.#statements.departures.all(most).map(({ guest }) => guest);
  }

  get waitingDepartures(): number {
    return this.#departures;
  }

  /** Files whose bytes other metadata servers have, at most so many. */
  guests(most: number): { readonly name: string; readonly size: number }[] {
    return this.#statements.beyond.all(Place.guest, -1, most);
  }

  /** True if a record's bytes are in the data file of this handle. */
  hasHandle(handle: string): boolean {
    return this.#statements.hasHandle.get(hex(handle)) !== undefined;
  }

  /** The parts of the data file are to be deleted, once that is committed. */
  addDeletions({ handle, servers }: Pick<Layout, 'handle' | 'servers'>): void {
    if (this.#deletions + servers.length > MAX_DELETIONS) return;
    this.#change(() => {
      for (const server of new Set(servers)) {
        this.#deletions += this.#statements.addDeletion.run(hex(handle), hex(server)).changes;
      }
    });
  }

  /** They are deleted. That is not worth a commit of its own. */
  removeDeletions(server: string, handles: readonly string[]): void {
    this.#change(() => {
      for (const handle of handles) {
        this.#deletions -= this.#statements.removeDeletion.run(hex(handle), hex(server)).changes;
      }
    });
  }

  /** Of a server, at most so many. */
  deletions(server: string, most: number): string[] {
    return this.#statements.deletions
      .all(hex(server), most)
      .map(({ handle }) => handle.toString('hex'));
  }

  get waitingDeletions(): number {
    return this.#deletions;
  }

  isToBeDeleted({ handle, server }: Deletion): boolean {
    return this.#statements.isToBeDeleted.get(hex(handle), hex(server)) !== undefined;
  }

  /** I/O servers with their last known addresses. */
  ioServers(): ServerAddress[] {
    return this.#statements.ioServers
      .all()
      .map(({ id, host, port }) => ({ id: id.toString('hex'), host, port }));
  }

  setIoServers(servers: readonly ServerAddress[]): void {
    this.#change(() => {
      for (const { id, host, port } of servers) {
        this.#statements.setIoServer.run(hex(id), host, port);
      }
    });
  }

  setMoving(name: string, moving: boolean): void {
    this.#change(() => this.#statements.setMoving.run(moving ? 1 : 0, name));
  }

  setMetadata(name: string, metadata: Buffer | undefined): void {
    this.#change(() => this.#statements.setMetadata.run(metadata ?? null, name));
  }

  /** Gives all of a record another name, which no record has or which is replaced. */
  rename(from: string, to: string): void {
    this.#change(() => {
      this.#statements.remove.run(to);
      this.#statements.rename.run(to, from);
    });
  }

  /** Another record that is like this one, its metadata included. */
  copy(from: string, to: string): void {
    this.#change(() => {
      this.#statements.remove.run(to);
      this.#statements.copy.run(to, from);
    });
  }

  remove(name: string): void {
    this.#change(() => this.#statements.remove.run(name));
  }

  /** Names in a directory `3F/A2/`, without it, and of those the ones with metadata. */
  list(directory: string): { readonly name: string; readonly hasMetadata: boolean }[] {
    // '0' comes after '/', so the range is that of the directory.
    const end = `${directory.slice(0, -1)}0`;
    return this.#statements.list.all(directory, end).map(({ name, described }) => ({
      name: name.slice(directory.length),
      hasMetadata: described === 1,
    }));
  }

  /** Records of moves that did not end. */
  moving(): FileRecord[] {
    return this.#statements.moving.all().map(record);
  }

  /** The largest rows beyond a size, at most so many. */
  beyond(size: number, most: number): { readonly name: string; readonly size: number }[] {
    return this.#statements.beyond.all(Place.row, size, most);
  }

  /** Files whose bytes are at this place. */
  counts(place: Place = Place.row): RecordCounts {
    const { files, bytes } = this.#statements.counts.get(place)!;
    return { files, bytes: bytes ?? 0 };
  }

  /** Resolves once all that was changed before is durable. */
  async commit(): Promise<void> {
    const wanted = this.#changes;
    while (this.#durable < wanted) {
      if (this.#broken) throw this.#broken;
      if (this.#syncing) await this.#syncing.catch(() => {});
      else await this.#sync();
    }
  }

  /** Ends the transaction, with a checkpoint; to be called when nobody waits any more. */
  async close(): Promise<void> {
    await this.commit().catch(() => {});
    this.#abandon();
  }

  /** As if the process had been killed: what was not committed is lost. */
  abandon(): void {
    if (this.#inTransaction) this.#db.exec('ROLLBACK');
    this.#abandon();
  }

  #abandon(): void {
    closeSync(this.#log);
    this.#db.close();
  }

  #sync(): Promise<void> {
    const upTo = this.#changes;
    const syncing = (async () => {
      try {
        if (this.#inTransaction) this.#db.exec('COMMIT');
        this.#inTransaction = false;
        await dataSync(this.#log);
        this.#durable = upTo;
      } catch (error) {
        this.#broken = error instanceof Error ? error : new Error(String(error));
        throw error;
      } finally {
        this.#syncing = undefined;
      }
    })();
    this.#syncing = syncing;
    return syncing;
  }

  #change(make: () => void): void {
    if (this.#broken) throw this.#broken;
    if (!this.#inTransaction) {
      this.#db.exec('BEGIN IMMEDIATE');
      this.#inTransaction = true;
    }
    this.#changes += 1;
    make();
  }
}

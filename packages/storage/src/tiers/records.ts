import { closeSync, fdatasync, openSync } from 'node:fs';
import { promisify } from 'node:util';
import { openDatabase, type SqliteDatabase } from '@stevedore/disk/sqlite';
import { StartError } from '../errors.js';
import type { ServerAddress } from '../io-tier/known-servers.js';
import { decodeChecks, encodeChecks, type Layout } from '../io-tier/layout.js';
import { MAX_DELETIONS, Place, SCHEMA_VERSION } from './constants.js';

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

export interface FileRecord {
  /** `3F/A2/base`. */
  readonly name: string;
  readonly place: Place;
  readonly size: number;
  readonly mtimeSeconds: number;
  /** Of the bytes while they are in the row or with another metadata server; of the stripes' checks at I/O servers; else 0. */
  readonly crc32: number;
  /** How often the bytes have moved. */
  readonly moves: number;
  /** True while a move is under way, or was when the storage ended. */
  readonly moving: boolean;
  /** Where the bytes are while they are at I/O servers. */
  readonly layout?: Layout | undefined;
  /** Where they are while another metadata server has them; see guest-name.ts. */
  readonly guest?: string | undefined;
}

/** A part of a data file that nothing needs any more. */
export interface Deletion {
  readonly handle: string;
  readonly server: string;
}

interface Row {
  readonly name: string;
  readonly place: number;
  readonly size: number;
  readonly mtime: number;
  readonly crc32: number;
  readonly moves: number;
  readonly moving: number;
  readonly handle: Buffer | null;
  readonly stripe: number | null;
  readonly servers: Buffer | null;
  readonly checks: Buffer | null;
  readonly guest: string | null;
}

/** What the records of a store path amount to. */
export interface RecordCounts {
  readonly files: number;
  readonly bytes: number;
}

const SCHEMA = `
  CREATE TABLE files (
    name TEXT PRIMARY KEY,
    place INTEGER NOT NULL,
    size INTEGER NOT NULL,
    mtime INTEGER NOT NULL,
    crc32 INTEGER NOT NULL,
    moves INTEGER NOT NULL DEFAULT 0,
    moving INTEGER NOT NULL DEFAULT 0,
    metadata BLOB,
    bytes BLOB
  );
  CREATE INDEX files_by_size ON files (place, size);
  CREATE INDEX files_moving ON files (name) WHERE moving = 1;
`;
/** What version 2 has beside: data files on I/O servers. */
const SCHEMA_2 = `
  ALTER TABLE files ADD COLUMN handle BLOB;
  ALTER TABLE files ADD COLUMN stripe INTEGER;
  ALTER TABLE files ADD COLUMN servers BLOB;
  ALTER TABLE files ADD COLUMN checks BLOB;
  CREATE UNIQUE INDEX files_by_handle ON files (handle) WHERE handle IS NOT NULL;
  CREATE TABLE owner (id BLOB NOT NULL);
  INSERT INTO owner VALUES (randomblob(8));
  CREATE TABLE io_servers (id BLOB PRIMARY KEY, host TEXT NOT NULL, port INTEGER NOT NULL);
  CREATE TABLE deletions (
    handle BLOB NOT NULL,
    server BLOB NOT NULL,
    PRIMARY KEY (server, handle)
  ) WITHOUT ROWID;
`;
/** What version 3 has beside: bytes with other metadata servers. */
const SCHEMA_3 = `
  ALTER TABLE files ADD COLUMN guest TEXT;
  CREATE TABLE departures (guest TEXT PRIMARY KEY) WITHOUT ROWID;
`;
const COLUMNS =
  'name, place, size, mtime, crc32, moves, moving, handle, stripe, servers, checks, guest';
const dataSync = promisify(fdatasync);

export class Records {
  readonly #db: SqliteDatabase;
  readonly #log: number;
  readonly #statements: ReturnType<typeof statements>;
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
    this.#statements = statements(db);
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
      migrate(db);
      return new Records(db, openSync(`${path}-wal`, 'r+'));
    } catch (error) {
      db?.close();
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
    this.#change(() =>
      this.#statements.put.run({
        name: entry.name,
        place: entry.place,
        size: entry.size,
        mtime: entry.mtimeSeconds,
        crc32: entry.crc32,
        moves: entry.moves,
        moving: entry.moving ? 1 : 0,
        bytes: bytes ?? null,
        handle: entry.layout ? hex(entry.layout.handle) : null,
        stripe: entry.layout?.stripeBytes ?? null,
        servers: entry.layout ? Buffer.concat(entry.layout.servers.map(hex)) : null,
        checks: entry.layout ? encodeChecks(entry.layout.checks) : null,
        guest: entry.guest ?? null,
      }),
    );
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

function hex(text: string): Buffer {
  return Buffer.from(text, 'hex');
}

const ID_BYTES = 8;

function layoutOf({ handle, stripe, servers, checks }: Row): Layout | undefined {
  if (!handle || stripe === null || !servers || !checks) return undefined;
  const ids: string[] = [];
  for (let at = 0; at < servers.length; at += ID_BYTES) {
    ids.push(servers.toString('hex', at, at + ID_BYTES));
  }
  const layout = { handle: handle.toString('hex'), stripeBytes: stripe, servers: ids };
  return { ...layout, checks: decodeChecks(checks) };
}

function record(row: Row): FileRecord {
  return {
    name: row.name,
    place: row.place as Place,
    size: row.size,
    mtimeSeconds: row.mtime,
    crc32: row.crc32,
    moves: row.moves,
    moving: row.moving === 1,
    layout: layoutOf(row),
    guest: row.guest ?? undefined,
  };
}

function migrate(db: SqliteDatabase): void {
  const version = db.pragma('user_version', { simple: true }) as number;
  if (version > SCHEMA_VERSION) throw new Error(`its version ${version} is a later one`);
  if (version === SCHEMA_VERSION) return;
  db.transaction(() => {
    if (version < 1) db.exec(SCHEMA);
    if (version < 2) db.exec(SCHEMA_2);
    db.exec(SCHEMA_3);
    db.pragma(`user_version = ${SCHEMA_VERSION}`);
  })();
}

function statements(db: SqliteDatabase) {
  return {
    find: db.prepare<[string], Row>(`SELECT ${COLUMNS} FROM files WHERE name = ?`),
    bytes: db.prepare<[string], { bytes: Buffer | null }>('SELECT bytes FROM files WHERE name = ?'),
    metadata: db.prepare<[string], { metadata: Buffer | null }>(
      'SELECT metadata FROM files WHERE name = ?',
    ),
    hasMetadata: db.prepare<[string], unknown>(
      'SELECT 1 FROM files WHERE name = ? AND metadata IS NOT NULL',
    ),
    put: db.prepare<[Record<string, unknown>]>(
      `INSERT INTO files (${COLUMNS}, bytes)
       VALUES (@name, @place, @size, @mtime, @crc32, @moves, @moving,
         @handle, @stripe, @servers, @checks, @guest, @bytes)
       ON CONFLICT (name) DO UPDATE SET place = @place, size = @size, mtime = @mtime,
         crc32 = @crc32, moves = @moves, moving = @moving, handle = @handle,
         stripe = @stripe, servers = @servers, checks = @checks, guest = @guest, bytes = @bytes`,
    ),
    owner: db.prepare<[], { id: Buffer }>('SELECT id FROM owner'),
    hasHandle: db.prepare<[Buffer], unknown>('SELECT 1 FROM files WHERE handle = ?'),
    addDeletion: db.prepare<[Buffer, Buffer]>(
      'INSERT OR IGNORE INTO deletions (handle, server) VALUES (?, ?)',
    ),
    removeDeletion: db.prepare<[Buffer, Buffer]>(
      'DELETE FROM deletions WHERE handle = ? AND server = ?',
    ),
    isToBeDeleted: db.prepare<[Buffer, Buffer], unknown>(
      'SELECT 1 FROM deletions WHERE handle = ? AND server = ?',
    ),
    deletions: db.prepare<[Buffer, number], { handle: Buffer }>(
      'SELECT handle FROM deletions WHERE server = ? LIMIT ?',
    ),
    countDeletions: db.prepare<[], { count: number }>('SELECT count(*) AS count FROM deletions'),
    addDeparture: db.prepare<[string]>('INSERT OR IGNORE INTO departures (guest) VALUES (?)'),
    removeDeparture: db.prepare<[string]>('DELETE FROM departures WHERE guest = ?'),
    departures: db.prepare<[number], { guest: string }>('SELECT guest FROM departures LIMIT ?'),
    countDepartures: db.prepare<[], { count: number }>('SELECT count(*) AS count FROM departures'),
    ioServers: db.prepare<[], { id: Buffer; host: string; port: number }>(
      'SELECT id, host, port FROM io_servers',
    ),
    setIoServer: db.prepare<[Buffer, string, number]>(
      'INSERT OR REPLACE INTO io_servers (id, host, port) VALUES (?, ?, ?)',
    ),
    setMoving: db.prepare<[number, string]>('UPDATE files SET moving = ? WHERE name = ?'),
    setMetadata: db.prepare<[Buffer | null, string]>(
      'UPDATE files SET metadata = ? WHERE name = ?',
    ),
    rename: db.prepare<[string, string]>('UPDATE files SET name = ? WHERE name = ?'),
    copy: db.prepare<[string, string]>(
      `INSERT INTO files (name, place, size, mtime, crc32, moves, moving, metadata, bytes)
       SELECT ?, place, size, mtime, crc32, moves, moving, metadata, bytes
       FROM files WHERE name = ?`,
    ),
    remove: db.prepare<[string]>('DELETE FROM files WHERE name = ?'),
    list: db.prepare<[string, string], { name: string; described: number }>(
      `SELECT name, metadata IS NOT NULL AS described FROM files
       WHERE name >= ? AND name < ?`,
    ),
    moving: db.prepare<[], Row>(`SELECT ${COLUMNS} FROM files WHERE moving = 1`),
    beyond: db.prepare<[number, number, number], { name: string; size: number }>(
      'SELECT name, size FROM files WHERE place = ? AND size > ? ORDER BY size DESC LIMIT ?',
    ),
    counts: db.prepare<[number], { files: number; bytes: number | null }>(
      'SELECT count(*) AS files, sum(size) AS bytes FROM files WHERE place = ?',
    ),
  };
}

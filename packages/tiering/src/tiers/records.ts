import { closeSync, fdatasync, openSync } from 'node:fs';
import { promisify } from 'node:util';
import type { Disk } from '@stevedore/disk';
import {
  applySchema,
  LOOP_WAIT_MS,
  openDatabase,
  SqliteBindingError,
  type SqliteDatabase,
  type SqliteStatement,
} from '@stevedore/disk/sqlite';
import { isError, messageOf } from '@stevedore/protocol';
import { StartError } from '@stevedore/wire';
import type { FileCounts } from '../migration/status.js';
import {
  COLUMNS,
  type FileRecord,
  type OpenCopy,
  Place,
  RECORDS_SCHEMA,
  type Row,
  recordOf,
  rowOf,
} from './record-rows.js';

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

export interface FileContent {
  readonly record: FileRecord;
  /** Undefined: they are not in the row. */
  readonly bytes: Buffer | undefined;
}

/** Pages of SQLite that one call gives back to the disk. */
const VACUUM_PAGES = 1000;

const dataSync = promisify(fdatasync);

export class Records {
  readonly #db: SqliteDatabase;
  readonly #log: number;
  readonly #statements: ReturnType<typeof recordStatements>;
  /** Counts changes; `#durable` of them are on the medium. */
  #changes = 0;
  #durable = 0;
  /** SQLite goes past it, so its accesses are made here. */
  readonly #disk: Disk;
  #inTransaction = false;
  #syncing: Promise<void> | undefined;
  #broken: Error | undefined;
  #unwanted: number;
  readonly #counts = new Map<number, { files: number; bytes: number }>();
  /** Tells these records from all others. */
  readonly owner: Buffer;

  private constructor(db: SqliteDatabase, log: number, disk: Disk) {
    this.#db = db;
    this.#disk = disk;
    this.#log = log;
    this.#statements = recordStatements(db);
    this.owner = this.#statements.owner.get()!.id;
    this.#unwanted = this.#statements.countUnwanted.get()!.count;
    for (const { place, files, bytes } of this.#statements.counts.all()) {
      this.#counts.set(place, { files, bytes });
    }
  }

  /** Opens or makes them; StartError if they are of a later version or damaged. */
  static open(path: string, disk: Disk): Records {
    let db: SqliteDatabase | undefined;
    try {
      db = openDatabase(path);
      // Counts for a new file alone, and before anything else is written to it.
      db.pragma('auto_vacuum = INCREMENTAL');
      db.pragma('journal_mode = WAL');
      db.pragma('synchronous = NORMAL');
      db.pragma('wal_autocheckpoint = 4000');
      applySchema(db, RECORDS_SCHEMA);
      db.pragma(`busy_timeout = ${LOOP_WAIT_MS}`);
      return new Records(db, openSync(`${path}-wal`, 'r+'), disk);
    } catch (error) {
      db?.close();
      if (error instanceof SqliteBindingError) throw error;
      const reason = messageOf(error);
      throw new StartError('records_unusable', `The storage cannot use ${path}: ${reason}.`, error);
    }
  }

  find(name: string): FileRecord | undefined {
    const row = this.#statements.find.get(name);
    return row && recordOf(row);
  }

  /** Where the bytes of a file are, and how many. */
  placeOf(name: string): Pick<FileRecord, 'place' | 'size'> | undefined {
    return this.#statements.placeOf.get(name);
  }

  /** A record with the bytes of the file, if its place is the row: one look for both. */
  findContent(name: string): FileContent | undefined {
    const found = this.#statements.content.get(name);
    return found && { record: recordOf(found), bytes: found.bytes ?? undefined };
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
    this.#changeCounted([entry.name], () => this.#statements.put.run(row));
  }

  /** True if a record's bytes are at this id. */
  hasRemote(id: string): boolean {
    return this.#statements.hasRemote.get(id) !== undefined;
  }

  /** A copy is about to be stored in another group; gives what `endCopy` takes. */
  beginCopy({ target, size, crc32, sinceSeconds }: Omit<OpenCopy, 'id'>): number {
    return this.#change(() =>
      Number(this.#statements.beginCopy.run(target, size, crc32, sinceSeconds).lastInsertRowid),
    );
  }

  /** Whether it was stored, and under which id, is known. */
  endCopy(id: number): void {
    this.#change(() => this.#statements.endCopy.run(id));
  }

  /** Copies that were begun and whose outcome is unknown. */
  openCopies(): OpenCopy[] {
    return this.#statements.copies.all();
  }

  /** The copy at this id is to be deleted, once that is committed. */
  addUnwanted(id: string, nowSeconds: number): void {
    this.#change(() => {
      this.#unwanted += this.#statements.addUnwanted.run(id, nowSeconds).changes;
    });
  }

  /** It is deleted. That is not worth a commit of its own. */
  removeUnwanted(id: string): void {
    this.#change(() => {
      this.#unwanted -= this.#statements.removeUnwanted.run(id).changes;
    });
  }

  /** Those since then or earlier, at most so many. */
  unwanted(sinceSeconds: number, most: number): string[] {
    return this.#statements.unwanted.all(sinceSeconds, most).map(({ remote }) => remote);
  }

  get unwantedCopies(): number {
    return this.#unwanted;
  }

  setMoving(name: string, moving: boolean): void {
    this.#change(() => this.#statements.setMoving.run(moving ? 1 : 0, name));
  }

  /** A crash may lose it: it is not worth a commit of its own. */
  setHeat(name: string, heat: number): void {
    this.#change(() => this.#statements.setHeat.run(heat, name));
  }

  setMetadata(name: string, metadata: Buffer | undefined): void {
    this.#change(() => this.#statements.setMetadata.run(metadata ?? null, name));
  }

  /** Gives all of a record another name, which no record has or which is replaced. */
  rename(from: string, to: string): void {
    this.#changeCounted([from, to], () => {
      this.#statements.remove.run(to);
      this.#statements.rename.run(to, from);
    });
  }

  /** Another record that is like this one of a file on the disk, its metadata included. */
  copy(from: string, to: string): void {
    this.#changeCounted([to], () => {
      this.#statements.remove.run(to);
      this.#statements.copy.run(to, from);
    });
  }

  remove(name: string): void {
    this.#changeCounted([name], () => this.#statements.remove.run(name));
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

  moving(): FileRecord[] {
    return this.#statements.moving.all().map(recordOf);
  }

  /** The files at a place that are asked for least, at most so many; none without bytes. */
  coldest(place: Place, most: number): Pick<Row, 'name' | 'size' | 'heat'>[] {
    return this.#statements.coldest.all(place, most);
  }

  /** Files whose bytes are at this place. */
  counts(place: Place = Place.row): FileCounts {
    return this.#counts.get(place) ?? { files: 0, bytes: 0 };
  }

  /** Gives pages that nothing needs any more back to the disk, so many at most. */
  shrink(): void {
    if (this.#broken) return;
    const free = this.#db.pragma('freelist_count', { simple: true }) as number;
    if (free > VACUUM_PAGES)
      this.#change(() => this.#db.exec(`PRAGMA incremental_vacuum(${VACUUM_PAGES})`));
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

  /** Ends the transaction, with a checkpoint; to be called when no request waits any more. */
  async close(): Promise<void> {
    await this.commit().catch(() => {});
    closeSync(this.#log);
    this.#db.close();
  }

  #sync(): Promise<void> {
    const upTo = this.#changes;
    const syncing = (async () => {
      try {
        if (this.#inTransaction) this.#db.exec('COMMIT');
        this.#inTransaction = false;
        if (this.#disk.access) await this.#disk.access(0);
        await dataSync(this.#log);
        this.#durable = upTo;
      } catch (error) {
        this.#broken = isError(error) ? error : new Error(String(error));
        throw error;
      } finally {
        this.#syncing = undefined;
      }
    })();
    this.#syncing = syncing;
    return syncing;
  }

  #change<Result>(make: () => Result): Result {
    if (this.#broken) throw this.#broken;
    if (!this.#inTransaction) {
      this.#db.exec('BEGIN IMMEDIATE');
      this.#inTransaction = true;
    }
    this.#changes += 1;
    return make();
  }

  /** Changes these records, which are counted with their places. */
  #changeCounted(names: readonly string[], make: () => void): void {
    const before = names.map((name) => this.find(name));
    this.#change(make);
    for (const each of before) this.#count(each, -1);
    for (const name of names) this.#count(this.find(name), 1);
  }

  #count(entry: FileRecord | undefined, sign: 1 | -1): void {
    if (!entry) return;
    const { files, bytes } = this.counts(entry.place);
    this.#counts.set(entry.place, { files: files + sign, bytes: bytes + sign * entry.size });
  }
}

/** What is asked of the records and done to them, prepared once. */
function recordStatements(db: SqliteDatabase) {
  const rows = <Given extends unknown[], Found>(sql: string): SqliteStatement<Given, Found> =>
    db.prepare(sql);
  const find = <Found>(sql: string) => rows<[string], Found>(sql);
  const change = <Given extends unknown[]>(sql: string) => rows<Given, unknown>(sql);
  return {
    find: find<Row>(`SELECT ${COLUMNS} FROM files WHERE name = ?`),
    placeOf: find<{ place: Place; size: number }>('SELECT place, size FROM files WHERE name = ?'),
    content: find<Row & { bytes: Buffer | null }>(
      `SELECT ${COLUMNS}, bytes FROM files WHERE name = ?`,
    ),
    bytes: find<{ bytes: Buffer | null }>('SELECT bytes FROM files WHERE name = ?'),
    metadata: find<{ metadata: Buffer | null }>('SELECT metadata FROM files WHERE name = ?'),
    hasMetadata: find('SELECT 1 FROM files WHERE name = ? AND metadata IS NOT NULL'),
    hasRemote: find('SELECT 1 FROM files WHERE remote = ?'),
    owner: rows<[], { id: Buffer }>('SELECT id FROM owner'),
    moving: rows<[], Row>(`SELECT ${COLUMNS} FROM files WHERE moving = 1`),
    list: rows<[string, string], { name: string; described: number }>(
      'SELECT name, metadata IS NOT NULL AS described FROM files WHERE name >= ? AND name < ?',
    ),
    coldest: rows<[number, number], Pick<Row, 'name' | 'size' | 'heat'>>(
      'SELECT name, size, heat FROM files WHERE place = ? AND size > 0 ORDER BY heat LIMIT ?',
    ),
    counts: rows<[], { place: number; files: number; bytes: number }>(
      'SELECT place, count(*) AS files, sum(size) AS bytes FROM files GROUP BY place',
    ),
    put: change<[Row & { readonly bytes: Buffer | null }]>(
      `INSERT INTO files (${COLUMNS}, bytes)
       VALUES (@name, @place, @size, @mtime, @crc32, @moves, @moving, @heat, @remote, @bytes)
       ON CONFLICT (name) DO UPDATE SET place = @place, size = @size, mtime = @mtime,
         crc32 = @crc32, moves = @moves, moving = @moving, heat = @heat, remote = @remote,
         bytes = @bytes`,
    ),
    setMoving: change<[number, string]>('UPDATE files SET moving = ? WHERE name = ?'),
    setHeat: change<[number, string]>('UPDATE files SET heat = ? WHERE name = ?'),
    setMetadata: change<[Buffer | null, string]>('UPDATE files SET metadata = ? WHERE name = ?'),
    rename: change<[string, string]>('UPDATE files SET name = ? WHERE name = ?'),
    copy: change<[string, string]>(
      `INSERT INTO files (name, place, size, mtime, crc32, moves, moving, heat, metadata)
       SELECT ?, place, size, mtime, crc32, moves, moving, heat, metadata
       FROM files WHERE name = ?`,
    ),
    remove: change<[string]>('DELETE FROM files WHERE name = ?'),
    beginCopy: change<[string, number, number, number]>(
      'INSERT INTO copies (target, size, crc32, since) VALUES (?, ?, ?, ?)',
    ),
    endCopy: change<[number]>('DELETE FROM copies WHERE id = ?'),
    copies: rows<[], OpenCopy>('SELECT id, target, size, crc32, since AS sinceSeconds FROM copies'),
    addUnwanted: change<[string, number]>(
      'INSERT OR IGNORE INTO unwanted (remote, since) VALUES (?, ?)',
    ),
    removeUnwanted: change<[string]>('DELETE FROM unwanted WHERE remote = ?'),
    unwanted: rows<[number, number], { remote: string }>(
      'SELECT remote FROM unwanted WHERE since <= ? LIMIT ?',
    ),
    countUnwanted: rows<[], { count: number }>('SELECT count(*) AS count FROM unwanted'),
  };
}

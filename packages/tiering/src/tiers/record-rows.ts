import type { SqliteDatabase, SqliteStatement } from '@stevedore/disk/sqlite';

/** Numbers of the metadata tier; FORMAT.md describes what is on the disk. */

/** Where the bytes of a file are. */
export const Place = {
  /** In its record. */
  row: 0,
  /** In a file of its own on the store path. */
  file: 1,
  /** At a FastDFS id in another group. */
  away: 2,
} as const;
export type Place = (typeof Place)[keyof typeof Place];

/**
 * Copies in other groups that are yet to be deleted, and copies that may or may not have
 * been stored; beyond these numbers no file leaves.
 */
export const MAX_DEPARTURES = 100_000;
export const MAX_OPEN_COPIES = 1000;

/** A row that has become hotter is written down as such; less is not worth a write. */
export const LEAST_HEATING = 0.1;

/** The tables of the records; FORMAT.md says what is in them. */

const TABLES = `
  CREATE TABLE files (
    name TEXT PRIMARY KEY,
    place INTEGER NOT NULL,
    size INTEGER NOT NULL,
    mtime INTEGER NOT NULL,
    crc32 INTEGER NOT NULL,
    moves INTEGER NOT NULL DEFAULT 0,
    moving INTEGER NOT NULL DEFAULT 0,
    heat REAL NOT NULL DEFAULT 0,
    away TEXT,
    metadata BLOB,
    bytes BLOB
  );
  CREATE INDEX files_by_heat ON files (place, heat);
  CREATE INDEX files_moving ON files (name) WHERE moving = 1;
  CREATE UNIQUE INDEX files_away ON files (away) WHERE away IS NOT NULL;

  CREATE TABLE owner (id BLOB NOT NULL);
  INSERT INTO owner VALUES (randomblob(8));
  CREATE TABLE copies (
    id INTEGER PRIMARY KEY,
    target TEXT NOT NULL,
    size INTEGER NOT NULL,
    crc32 INTEGER NOT NULL,
    since INTEGER NOT NULL
  );
  CREATE TABLE departures (away TEXT PRIMARY KEY, since INTEGER NOT NULL) WITHOUT ROWID;

  CREATE TABLE slices (
    trunk TEXT NOT NULL,
    position INTEGER NOT NULL,
    size INTEGER NOT NULL,
    crc32 INTEGER NOT NULL,
    heat REAL NOT NULL,
    bytes BLOB NOT NULL,
    PRIMARY KEY (trunk, position)
  );
  CREATE INDEX slices_by_heat ON slices (heat);
`;

export const RECORDS_SCHEMA: readonly string[] = [TABLES];

/** A record, and the row that it is in the table of files. */

export interface FileRecord {
  /** `3F/A2/base`. */
  readonly name: string;
  readonly place: Place;
  readonly size: number;
  readonly mtimeSeconds: number;
  /** Of the bytes while they are in the row or in another group; else 0. */
  readonly crc32: number;
  /** How often the bytes have moved. */
  readonly moves: number;
  /** True while a move is under way, or was when the storage ended. */
  readonly moving: boolean;
  /** How often it is asked for; see `heated` of @stevedore/balance. */
  readonly heat: number;
  /** The FastDFS id that the bytes are at, `group/name`, while they are in another group. */
  readonly away?: string | undefined;
}

export interface Row {
  readonly name: string;
  readonly place: number;
  readonly size: number;
  readonly mtime: number;
  readonly crc32: number;
  readonly moves: number;
  readonly moving: number;
  readonly heat: number;
  readonly away: string | null;
}

/** Of a record; its bytes and metadata are columns beside. */
export const COLUMNS = 'name, place, size, mtime, crc32, moves, moving, heat, away';

/** Part of every read: its fields are named, as a rest and a spread are slow. */
export function recordOf(row: Row): FileRecord {
  return {
    name: row.name,
    place: row.place as Place,
    size: row.size,
    mtimeSeconds: row.mtime,
    crc32: row.crc32,
    moves: row.moves,
    moving: row.moving === 1,
    heat: row.heat,
    away: row.away ?? undefined,
  };
}

/** What `recordOf` makes the record of again. */
export function rowOf({ mtimeSeconds, away, moving, ...entry }: FileRecord): Row {
  return { ...entry, mtime: mtimeSeconds, moving: moving ? 1 : 0, away: away ?? null };
}

/** What is asked of the records and done to them, prepared once. */

const SQL = {
  find: `SELECT ${COLUMNS} FROM files WHERE name = ?`,
  placeOf: 'SELECT place, size FROM files WHERE name = ?',
  content: `SELECT ${COLUMNS}, bytes FROM files WHERE name = ?`,
  bytes: 'SELECT bytes FROM files WHERE name = ?',
  metadata: 'SELECT metadata FROM files WHERE name = ?',
  hasMetadata: 'SELECT 1 FROM files WHERE name = ? AND metadata IS NOT NULL',
  put: `INSERT INTO files (${COLUMNS}, bytes)
       VALUES (@name, @place, @size, @mtime, @crc32, @moves, @moving, @heat, @away, @bytes)
       ON CONFLICT (name) DO UPDATE SET place = @place, size = @size, mtime = @mtime,
         crc32 = @crc32, moves = @moves, moving = @moving, heat = @heat, away = @away,
         bytes = @bytes`,
  owner: 'SELECT id FROM owner',
  hasAway: 'SELECT 1 FROM files WHERE away = ?',
  beginCopy: 'INSERT INTO copies (target, size, crc32, since) VALUES (?, ?, ?, ?)',
  endCopy: 'DELETE FROM copies WHERE id = ?',
  copies: 'SELECT id, target, size, crc32, since AS sinceSeconds FROM copies',
  addDeparture: 'INSERT OR IGNORE INTO departures (away, since) VALUES (?, ?)',
  removeDeparture: 'DELETE FROM departures WHERE away = ?',
  departures: 'SELECT away FROM departures WHERE since <= ? LIMIT ?',
  countDepartures: 'SELECT count(*) AS count FROM departures',
  setMoving: 'UPDATE files SET moving = ? WHERE name = ?',
  setHeat: 'UPDATE files SET heat = ? WHERE name = ?',
  setMetadata: 'UPDATE files SET metadata = ? WHERE name = ?',
  rename: 'UPDATE files SET name = ? WHERE name = ?',
  copy: `INSERT INTO files (name, place, size, mtime, crc32, moves, moving, heat, metadata)
       SELECT ?, place, size, mtime, crc32, moves, moving, heat, metadata
       FROM files WHERE name = ?`,
  remove: 'DELETE FROM files WHERE name = ?',
  list: `SELECT name, metadata IS NOT NULL AS described FROM files
       WHERE name >= ? AND name < ?`,
  moving: `SELECT ${COLUMNS} FROM files WHERE moving = 1`,
  coldest: 'SELECT name, size FROM files WHERE place = ? AND size > 0 ORDER BY heat LIMIT ?',
  counts: 'SELECT place, count(*) AS files, sum(size) AS bytes FROM files GROUP BY place',
} as const satisfies Record<keyof RecordStatements, string>;

export interface OpenCopy {
  readonly id: number;
  /** The group that it goes to. */
  readonly target: string;
  readonly size: number;
  readonly crc32: number;
  readonly sinceSeconds: number;
}

export interface RecordStatements {
  readonly find: SqliteStatement<[string], Row>;
  readonly placeOf: SqliteStatement<[string], { place: Place; size: number }>;
  readonly content: SqliteStatement<[string], Row & { bytes: Buffer | null }>;
  readonly bytes: SqliteStatement<[string], { bytes: Buffer | null }>;
  readonly metadata: SqliteStatement<[string], { metadata: Buffer | null }>;
  readonly hasMetadata: SqliteStatement<[string], unknown>;
  readonly put: SqliteStatement<[Row & { readonly bytes: Buffer | null }]>;
  readonly owner: SqliteStatement<[], { id: Buffer }>;
  readonly hasAway: SqliteStatement<[string], unknown>;
  readonly beginCopy: SqliteStatement<[string, number, number, number]>;
  readonly endCopy: SqliteStatement<[number]>;
  readonly copies: SqliteStatement<[], OpenCopy>;
  readonly addDeparture: SqliteStatement<[string, number]>;
  readonly removeDeparture: SqliteStatement<[string]>;
  readonly departures: SqliteStatement<[number, number], { away: string }>;
  readonly countDepartures: SqliteStatement<[], { count: number }>;
  readonly setMoving: SqliteStatement<[number, string]>;
  readonly setHeat: SqliteStatement<[number, string]>;
  readonly setMetadata: SqliteStatement<[Buffer | null, string]>;
  readonly rename: SqliteStatement<[string, string]>;
  readonly copy: SqliteStatement<[string, string]>;
  readonly remove: SqliteStatement<[string]>;
  readonly list: SqliteStatement<[string, string], { name: string; described: number }>;
  readonly moving: SqliteStatement<[], Row>;
  readonly coldest: SqliteStatement<[number, number], { name: string; size: number }>;
  readonly counts: SqliteStatement<[], { place: number; files: number; bytes: number }>;
}

export function recordStatements(db: SqliteDatabase): RecordStatements {
  const prepared = Object.entries(SQL).map(([name, sql]) => [name, db.prepare(sql)]);
  return Object.fromEntries(prepared) as RecordStatements;
}

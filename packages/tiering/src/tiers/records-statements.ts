import type { SqliteDatabase, SqliteStatement } from '@stevedore/disk/sqlite';
import type { Place } from './constants.js';
import { COLUMNS, type Row } from './record-row.js';

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

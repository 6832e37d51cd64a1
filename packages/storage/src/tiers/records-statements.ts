import type { SqliteDatabase, SqliteStatement } from '@stevedore/disk/sqlite';
import { COLUMNS, type Row } from './record-row.js';

/** What is asked of the records and done to them, prepared once. */

const SQL = {
  find: `SELECT ${COLUMNS} FROM files WHERE name = ?`,
  bytes: 'SELECT bytes FROM files WHERE name = ?',
  metadata: 'SELECT metadata FROM files WHERE name = ?',
  hasMetadata: 'SELECT 1 FROM files WHERE name = ? AND metadata IS NOT NULL',
  put: `INSERT INTO files (${COLUMNS}, bytes)
       VALUES (@name, @place, @size, @mtime, @crc32, @moves, @moving,
         @handle, @stripe, @servers, @checks, @guest, @bytes)
       ON CONFLICT (name) DO UPDATE SET place = @place, size = @size, mtime = @mtime,
         crc32 = @crc32, moves = @moves, moving = @moving, handle = @handle,
         stripe = @stripe, servers = @servers, checks = @checks, guest = @guest, bytes = @bytes`,
  owner: 'SELECT id FROM owner',
  hasHandle: 'SELECT 1 FROM files WHERE handle = ?',
  addDeletion: 'INSERT OR IGNORE INTO deletions (handle, server) VALUES (?, ?)',
  removeDeletion: 'DELETE FROM deletions WHERE handle = ? AND server = ?',
  isToBeDeleted: 'SELECT 1 FROM deletions WHERE handle = ? AND server = ?',
  deletions: 'SELECT handle FROM deletions WHERE server = ? LIMIT ?',
  countDeletions: 'SELECT count(*) AS count FROM deletions',
  addDeparture: 'INSERT OR IGNORE INTO departures (guest) VALUES (?)',
  removeDeparture: 'DELETE FROM departures WHERE guest = ?',
  departures: 'SELECT guest FROM departures LIMIT ?',
  countDepartures: 'SELECT count(*) AS count FROM departures',
  ioServers: 'SELECT id, host, port FROM io_servers',
  setIoServer: 'INSERT OR REPLACE INTO io_servers (id, host, port) VALUES (?, ?, ?)',
  setMoving: 'UPDATE files SET moving = ? WHERE name = ?',
  setMetadata: 'UPDATE files SET metadata = ? WHERE name = ?',
  rename: 'UPDATE files SET name = ? WHERE name = ?',
  copy: `INSERT INTO files (name, place, size, mtime, crc32, moves, moving, metadata, bytes)
       SELECT ?, place, size, mtime, crc32, moves, moving, metadata, bytes
       FROM files WHERE name = ?`,
  remove: 'DELETE FROM files WHERE name = ?',
  list: `SELECT name, metadata IS NOT NULL AS described FROM files
       WHERE name >= ? AND name < ?`,
  moving: `SELECT ${COLUMNS} FROM files WHERE moving = 1`,
  beyond: 'SELECT name, size FROM files WHERE place = ? AND size > ? ORDER BY size DESC LIMIT ?',
  counts: 'SELECT count(*) AS files, sum(size) AS bytes FROM files WHERE place = ?',
} as const satisfies Record<keyof RecordStatements, string>;

export interface RecordStatements {
  readonly find: SqliteStatement<[string], Row>;
  readonly bytes: SqliteStatement<[string], { bytes: Buffer | null }>;
  readonly metadata: SqliteStatement<[string], { metadata: Buffer | null }>;
  readonly hasMetadata: SqliteStatement<[string], unknown>;
  readonly put: SqliteStatement<[Row & { readonly bytes: Buffer | null }]>;
  readonly owner: SqliteStatement<[], { id: Buffer }>;
  readonly hasHandle: SqliteStatement<[Buffer], unknown>;
  readonly addDeletion: SqliteStatement<[Buffer, Buffer]>;
  readonly removeDeletion: SqliteStatement<[Buffer, Buffer]>;
  readonly isToBeDeleted: SqliteStatement<[Buffer, Buffer], unknown>;
  readonly deletions: SqliteStatement<[Buffer, number], { handle: Buffer }>;
  readonly countDeletions: SqliteStatement<[], { count: number }>;
  readonly addDeparture: SqliteStatement<[string]>;
  readonly removeDeparture: SqliteStatement<[string]>;
  readonly departures: SqliteStatement<[number], { guest: string }>;
  readonly countDepartures: SqliteStatement<[], { count: number }>;
  readonly ioServers: SqliteStatement<[], { id: Buffer; host: string; port: number }>;
  readonly setIoServer: SqliteStatement<[Buffer, string, number]>;
  readonly setMoving: SqliteStatement<[number, string]>;
  readonly setMetadata: SqliteStatement<[Buffer | null, string]>;
  readonly rename: SqliteStatement<[string, string]>;
  readonly copy: SqliteStatement<[string, string]>;
  readonly remove: SqliteStatement<[string]>;
  readonly list: SqliteStatement<[string, string], { name: string; described: number }>;
  readonly moving: SqliteStatement<[], Row>;
  readonly beyond: SqliteStatement<[number, number, number], { name: string; size: number }>;
  readonly counts: SqliteStatement<[number], { files: number; bytes: number | null }>;
}

export function recordStatements(db: SqliteDatabase): RecordStatements {
  const prepared = Object.entries(SQL).map(([name, sql]) => [name, db.prepare(sql)]);
  return Object.fromEntries(prepared) as RecordStatements;
}

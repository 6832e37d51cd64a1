import type { SqliteDatabase } from '@stevedore/disk/sqlite';
import { COLUMNS, type Row } from './record-row.js';

/** What is asked of the records and done to them, prepared once. */

export type RecordStatements = ReturnType<typeof recordStatements>;

export function recordStatements(db: SqliteDatabase) {
  return {
    find: db.prepare<[string], Row>(`SELECT ${COLUMNS} FROM files WHERE name = ?`),
    bytes: db.prepare<[string], { bytes: Buffer | null }>('SELECT bytes FROM files WHERE name = ?'),
    metadata: db.prepare<[string], { metadata: Buffer | null }>(
      'SELECT metadata FROM files WHERE name = ?',
    ),
    hasMetadata: db.prepare<[string], unknown>(
      'SELECT 1 FROM files WHERE name = ? AND metadata IS NOT NULL',
    ),
    put: db.prepare<[Row & { readonly bytes: Buffer | null }]>(
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

import type Database from 'better-sqlite3';

/** Every statement of the FileMap, prepared once. The tables are in filemap-schema.ts. */

const FILE_COLUMNS = `f.key, f.name, f.type, f.grp AS "group", f.size, f.crc32, f.stagedAt,
  f.segment, f.position, f.spooled, f.trunk, f.trunkOffset`;
const TRUNK_COLUMNS = `id, taskId, kind, state, fileId, size, crc32, files, deadFiles, deadBytes,
  recordSegment`;

export type Statements = ReturnType<typeof prepareStatements>;

export function prepareStatements(database: Database.Database) {
  const prepare = (sql: string) => database.prepare(sql);
  return {
    find: prepare(`SELECT ${FILE_COLUMNS}, t.kind AS trunkKind, t.fileId AS trunkFileId
      FROM files f LEFT JOIN trunks t ON t.id = f.trunk WHERE f.key = ?`),
    findInTrunk: prepare(`SELECT ${FILE_COLUMNS}, t.kind AS trunkKind, t.fileId AS trunkFileId
      FROM files f INDEXED BY files_by_place JOIN trunks t ON t.id = f.trunk
      WHERE f.trunk = ? AND f.trunkOffset = ?`),
    onlyMember: prepare(`SELECT ${FILE_COLUMNS}, NULL AS trunkKind, NULL AS trunkFileId
      FROM files f INDEXED BY files_by_place WHERE trunk = ? AND trunkOffset = 0`),
    waiting: prepare(`SELECT ${FILE_COLUMNS}, NULL AS trunkKind, NULL AS trunkFileId
      FROM files f INDEXED BY files_waiting
      WHERE trunk IS NULL AND (segment, position) > (?, ?) ORDER BY segment, position LIMIT ?`),
    waitingSpooled: prepare(`SELECT ${FILE_COLUMNS}, NULL AS trunkKind, NULL AS trunkFileId
      FROM files f INDEXED BY files_spooled
      WHERE spooled = 1 AND trunk IS NULL ORDER BY key LIMIT ?`),
    forgetSpooled: prepare('UPDATE files SET spooled = 2 WHERE key = ?'),
    oldestNeeded: prepare(`SELECT segment FROM files INDEXED BY files_waiting
      WHERE trunk IS NULL ORDER BY segment, position LIMIT 1`),
    addFile: prepare(`INSERT OR IGNORE INTO files
      (key, name, type, grp, size, crc32, stagedAt, segment, position, spooled)
      VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`),
    removeFile: prepare('DELETE FROM files WHERE key = ?'),
    confirmFile: prepare(`UPDATE files SET trunk = ?, trunkOffset = ?
      WHERE key = ? AND trunk IS NULL RETURNING size, spooled`),
    confirmedSpooled: prepare(`SELECT key FROM files INDEXED BY files_spooled
      WHERE spooled = 1 AND trunk IS NOT NULL ORDER BY key`),
    isDeleted: prepare('SELECT 1 FROM deletions WHERE key = ?'),
    addDeletion: prepare(`INSERT INTO deletions (key, trunk, recordSegment)
      VALUES ($key, $trunk, $segment) ON CONFLICT (key) DO UPDATE SET recordSegment = $segment`),
    setDeletionTrunk: prepare('UPDATE deletions SET trunk = ? WHERE key = ? AND trunk IS NULL'),
    deletionsRecordedIn: prepare(
      'SELECT key FROM deletions WHERE recordSegment = ? AND trunk IS NOT NULL',
    ),
    forgetDeletions: prepare('DELETE FROM deletions WHERE recordSegment = ? AND trunk IS NULL'),
    addPlan: prepare(`INSERT INTO trunks (taskId, kind, state, size, files, recordSegment, members)
      VALUES ($taskId, $kind, 'planned', $size, $files, $segment, $members)
      ON CONFLICT (taskId) DO NOTHING`),
    addStored:
      prepare(`INSERT INTO trunks (taskId, kind, state, fileId, size, crc32, files, recordSegment)
      VALUES ($taskId, $kind, 'stored', $fileId, $size, $crc32, $files, $segment)
      ON CONFLICT (taskId) DO UPDATE SET fileId = $fileId, size = $size, crc32 = $crc32,
        recordSegment = $segment,
        state = CASE state WHEN 'confirmed' THEN 'confirmed' ELSE 'stored' END`),
    finishTrunk: prepare("UPDATE trunks SET state = 'confirmed', members = NULL WHERE id = ?"),
    abandonTrunk: prepare("UPDATE trunks SET state = 'abandoned', members = NULL WHERE id = ?"),
    deadTrunks: prepare(`SELECT ${TRUNK_COLUMNS} FROM trunks INDEXED BY trunks_dead
      WHERE deadFiles >= files AND state = 'confirmed' ORDER BY id`),
    retireTrunk: prepare("UPDATE trunks SET state = 'retired' WHERE id = ?"),
    freeDeletions: prepare('UPDATE deletions SET trunk = NULL WHERE trunk = ?'),
    addDead: prepare(
      'UPDATE trunks SET deadFiles = deadFiles + ?, deadBytes = deadBytes + ? WHERE id = ?',
    ),
    trunkByFile: prepare(`SELECT ${TRUNK_COLUMNS} FROM trunks WHERE fileId = ?`),
    trunkByTask: prepare(`SELECT ${TRUNK_COLUMNS} FROM trunks WHERE taskId = ?`),
    trunksIn: prepare(`SELECT ${TRUNK_COLUMNS} FROM trunks WHERE state = ? ORDER BY id`),
    trunksRecordedIn: prepare(`SELECT ${TRUNK_COLUMNS} FROM trunks
      WHERE recordSegment = ? AND state IN ('stored', 'confirmed')`),
    members: prepare('SELECT members FROM trunks WHERE id = ?'),
    countTrunks: prepare("SELECT count(*) AS n FROM trunks WHERE state = 'confirmed'"),
    indexed: prepare('SELECT indexedBytes FROM segments WHERE number = ?'),
    setIndexed: prepare(`INSERT INTO segments (number, indexedBytes) VALUES (?, ?)
      ON CONFLICT (number) DO UPDATE SET indexedBytes = excluded.indexedBytes`),
    forgetSegment: prepare('DELETE FROM segments WHERE number = ?'),
    counters: prepare('SELECT name, value FROM counters'),
    count: prepare('UPDATE counters SET value = value + ? WHERE name = ?'),
  };
}

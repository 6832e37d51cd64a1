import type { SqliteDatabase, SqliteStatement } from '@stevedore/disk/sqlite';

/** Every statement of the FileMap, prepared once. The tables are in schema.ts. */

const FILE_COLUMNS = `f.key, f.name, f.type, f.grp AS "group", f.size, f.crc32, f.stagedAt,
  f.segment, f.position, f.spooled, f.trunk, f.trunkOffset, f.was, f.expiresAt`;
const TRUNK_COLUMNS = `id, taskId, kind, state, fileId, size, crc32, files, contentBytes,
  coalesce((SELECT d.files FROM dead d WHERE d.trunk = trunks.id), 0) AS deadFiles,
  coalesce((SELECT d.bytes FROM dead d WHERE d.trunk = trunks.id), 0) AS deadBytes,
  recordSegment, doubtfulSince, copied`;

const SQL = {
  find: `SELECT ${FILE_COLUMNS}, t.kind AS trunkKind, t.fileId AS trunkFileId
      FROM files f LEFT JOIN trunks t ON t.id = f.trunk
      WHERE f.key = ? AND f.deleted IS NULL`,
  page: `SELECT ${FILE_COLUMNS}, t.kind AS trunkKind, t.fileId AS trunkFileId
      FROM files f LEFT JOIN trunks t ON t.id = f.trunk
      WHERE f.key > ? AND f.deleted IS NULL ORDER BY f.key LIMIT ?`,
  recount: `SELECT
      CASE WHEN trunk IS NOT NULL THEN 'merged' WHEN spooled > 0 THEN 'spooled' ELSE 'waiting' END
        AS what, count(*) AS files, sum(size) AS bytes
      FROM files WHERE deleted IS NULL GROUP BY what`,
  setCount: 'UPDATE counters SET value = ? WHERE name = ?',
  forgetLocal: 'UPDATE files SET segment = 0, position = 0 WHERE key = ? AND trunk IS NOT NULL',
  findInTrunk: `SELECT ${FILE_COLUMNS}, t.kind AS trunkKind, t.fileId AS trunkFileId
      FROM files f INDEXED BY files_by_place JOIN trunks t ON t.id = f.trunk
      WHERE f.trunk = ? AND f.trunkOffset = ? AND f.deleted IS NULL`,
  onlyMember: `SELECT ${FILE_COLUMNS}, NULL AS trunkKind, NULL AS trunkFileId
      FROM files f INDEXED BY files_by_place
      WHERE trunk = ? AND trunkOffset = 0 AND deleted IS NULL`,
  waiting: `SELECT ${FILE_COLUMNS}, NULL AS trunkKind, NULL AS trunkFileId
      FROM files f INDEXED BY files_waiting
      WHERE trunk IS NULL AND (segment, position) > (?, ?) ORDER BY segment, position LIMIT ?`,
  waitingSpooled: `SELECT ${FILE_COLUMNS}, NULL AS trunkKind, NULL AS trunkFileId
      FROM files f INDEXED BY files_spooled
      WHERE spooled = 1 AND trunk IS NULL ORDER BY key LIMIT ?`,
  expired: `SELECT ${FILE_COLUMNS}, NULL AS trunkKind, NULL AS trunkFileId
      FROM files f INDEXED BY files_expiring WHERE expiresAt <= ? ORDER BY expiresAt LIMIT ?`,
  byOnce: `SELECT ${FILE_COLUMNS}, t.kind AS trunkKind, t.fileId AS trunkFileId
      FROM files f INDEXED BY files_once LEFT JOIN trunks t ON t.id = f.trunk
      WHERE f.once = ? AND f.stagedAt >= ? ORDER BY f.segment, f.position, f.key`,
  forgetSpooled: 'UPDATE files SET spooled = 2 WHERE key = ?',
  oldestNeeded: `SELECT segment FROM files INDEXED BY files_waiting
      WHERE trunk IS NULL
        AND NOT EXISTS (SELECT 1 FROM damage d WHERE d.key = files.key AND d.place <> 'trunk')
      ORDER BY segment, position LIMIT 1`,
  oldestUncopied: `SELECT min(oldestSegment) AS segment FROM trunks INDEXED BY trunks_uncopied
      WHERE copied = 0 AND state = 'confirmed'`,
  uncopied: `SELECT ${TRUNK_COLUMNS} FROM trunks INDEXED BY trunks_uncopied
      WHERE copied = 0 AND state = 'confirmed' AND id > ? ORDER BY id LIMIT ?`,
  countUncopied: `SELECT count(*) AS n FROM trunks INDEXED BY trunks_uncopied
      WHERE copied = 0 AND state = 'confirmed'`,
  setCopied: 'UPDATE trunks SET copied = 1 WHERE id = ?',
  addFile: `INSERT OR IGNORE INTO files
      (key, name, type, grp, size, crc32, stagedAt, segment, position, spooled, expiresAt, once)
      VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
  adoptFile: `INSERT OR IGNORE INTO files
      (key, name, type, grp, size, crc32, stagedAt, segment, position, spooled, was, expiresAt)
      VALUES (?, ?, ?, ?, ?, ?, ?, 0, 0, ?, ?, ?)`,
  claimFile: 'UPDATE files SET trunk = ?, trunkOffset = ?, was = ? WHERE key = ?',
  moveFile: `UPDATE files SET segment = $segment, position = $position, spooled = $spooled,
      trunk = NULL, trunkOffset = NULL, was = $was WHERE key = $key`,
  loseFile: 'UPDATE files SET segment = ?, position = 0 WHERE key = ? AND trunk IS NULL',
  removeForward: 'DELETE FROM forwards WHERE fileId = ? AND offset = ?',
  returnFile: `UPDATE files SET trunk = $trunk, trunkOffset = $offset, was = $was, segment = 0,
      position = 0, spooled = $spooled WHERE key = $key`,
  uncountDead: 'UPDATE dead SET files = files - 1, bytes = bytes - ? WHERE trunk = ?',
  clearSparse: 'UPDATE trunks SET sparse = 0 WHERE id = ?',
  addForward: 'INSERT OR REPLACE INTO forwards (fileId, offset, key) VALUES (?, ?, ?)',
  forward: 'SELECT key FROM forwards WHERE fileId = ? AND offset = ?',
  removeForwards: 'DELETE FROM forwards WHERE key = ?',
  removeFile: 'DELETE FROM files WHERE key = ?',
  confirmFile: `UPDATE files SET trunk = ?, trunkOffset = ?
      WHERE key = ? AND trunk IS NULL RETURNING size, spooled`,
  confirmedSpooled: `SELECT f.key FROM files f INDEXED BY files_spooled
      JOIN trunks t ON t.id = f.trunk WHERE f.spooled = 1 AND t.copied = 1 ORDER BY f.key`,
  isDeleted: `SELECT 1 FROM deletions WHERE key = $key
      UNION ALL SELECT 1 FROM files WHERE key = $key AND deleted IS NOT NULL`,
  markFile: `UPDATE files SET deleted = $segment, name = '', type = '', grp = NULL,
      spooled = 0, expiresAt = NULL, once = NULL WHERE key = $key`,
  noteMark: 'INSERT INTO marked (segment, key) VALUES (?, ?)',
  findMarked: 'SELECT trunk, deleted FROM files WHERE key = ? AND deleted IS NOT NULL',
  listMarked: `INSERT OR IGNORE INTO deletions (key, trunks, recordSegment)
      SELECT key, 0, deleted FROM files INDEXED BY files_by_place
      WHERE trunk = ? AND deleted IS NOT NULL ORDER BY key`,
  removeMarked: `DELETE FROM files
      WHERE key IN (SELECT key FROM files INDEXED BY files_by_place WHERE trunk = ?)
        AND deleted IS NOT NULL`,
  markedNeededIn: `SELECT DISTINCT f.key FROM marked m INDEXED BY marked_by_segment
      CROSS JOIN files f ON f.key = m.key WHERE m.segment = $segment AND f.deleted = $segment`,
  forgetMarked: 'DELETE FROM marked WHERE segment = ?',
  addDeletion: `INSERT INTO deletions (key, trunks, recordSegment)
      VALUES ($key, $trunks, $segment) ON CONFLICT (key) DO UPDATE SET recordSegment = $segment`,
  addHold: 'INSERT OR IGNORE INTO holds (trunk, key) VALUES (?, ?)',
  countHold: 'UPDATE deletions SET trunks = trunks + 1 WHERE key = ?',
  uncountHolds: `UPDATE deletions SET trunks = trunks - 1
      WHERE key IN (SELECT key FROM holds WHERE trunk = ?)`,
  freeHolds: 'DELETE FROM holds WHERE trunk = ?',
  deletionsNeededIn: `SELECT key FROM deletions INDEXED BY deletions_by_segment
      WHERE recordSegment = ? AND (trunks > 0
        OR EXISTS (SELECT 1 FROM trunks INDEXED BY trunks_by_state
          WHERE state IN ('stored', 'missing')))`,
  forgetDeletions: `DELETE FROM deletions WHERE recordSegment = ? AND trunks = 0`,
  addPlan: `INSERT INTO trunks (taskId, kind, state, size, files, recordSegment, members)
      VALUES ($taskId, $kind, 'planned', $size, $files, $segment, $members)
      ON CONFLICT (taskId) DO UPDATE SET recordSegment = $segment
        WHERE state IN ('planned', 'abandoned', 'retired')`,
  addStored: `INSERT INTO trunks
      (taskId, kind, state, fileId, size, crc32, files, recordSegment, members, doubtfulSince)
      VALUES ($taskId, $kind, 'stored', $fileId, $size, $crc32, $files, $segment, $members,
        $doubtfulSince)
      ON CONFLICT (taskId) DO UPDATE SET fileId = $fileId, size = $size, crc32 = $crc32,
        recordSegment = $segment, doubtfulSince = coalesce(doubtfulSince, $doubtfulSince),
        members = CASE WHEN state IN ('confirmed', 'retiring', 'retired') THEN NULL
          ELSE coalesce(members, $members) END,
        state = CASE WHEN state IN ('confirmed', 'retiring', 'retired') THEN state
          ELSE 'stored' END
        WHERE recordSegment <= $segment`,
  addRetired: `INSERT INTO trunks
      (taskId, kind, state, fileId, size, files, recordSegment, doubtfulSince)
      VALUES ($taskId, $kind, 'retiring', $fileId, $size, $files, $segment, $doubtfulSince)
      ON CONFLICT (taskId) DO UPDATE SET fileId = $fileId, recordSegment = $segment, members = NULL, sparse = 0,
        state = CASE WHEN state = 'retired' THEN state ELSE 'retiring' END`,
  finishTrunk: `UPDATE trunks SET state = 'confirmed', members = NULL, files = $files,
      contentBytes = $bytes, copied = 0,
      oldestSegment = (SELECT min(segment) FROM files
        WHERE trunk = $trunk AND spooled = 0 AND segment > 0 AND deleted IS NULL)
      WHERE id = $trunk`,
  countDead: `INSERT OR REPLACE INTO dead (trunk, files, bytes)
      SELECT $trunk, $files - count(*), $bytes - coalesce(sum(size), 0) FROM files
      WHERE trunk = $trunk AND deleted IS NULL`,
  abandonTrunk: `UPDATE trunks SET state = 'abandoned', doubtfulSince = $now,
      members = CASE kind WHEN 'whole' THEN members END WHERE id = $trunk`,
  doubt: 'UPDATE trunks SET doubtfulSince = $now WHERE id = $trunk',
  settleDoubt: `UPDATE trunks SET doubtfulSince = NULL,
      state = CASE state WHEN 'abandoned' THEN 'retired' ELSE state END,
      members = CASE state WHEN 'abandoned' THEN NULL ELSE members END WHERE id = ?`,
  doubtful: `SELECT ${TRUNK_COLUMNS} FROM trunks INDEXED BY trunks_doubtful
      WHERE doubtfulSince IS NOT NULL ORDER BY id`,
  addUnwanted: 'INSERT OR IGNORE INTO unwanted (fileId) VALUES (?)',
  removeUnwanted: 'DELETE FROM unwanted WHERE fileId = ?',
  unwanted: 'SELECT fileId FROM unwanted ORDER BY fileId',
  addDamage: `INSERT OR IGNORE INTO damage (key, place, holder, foundAt)
      VALUES ($key, $place, $holder, $foundAt)`,
  damageOf: 'SELECT place, holder FROM damage WHERE key = ?',
  damage: 'SELECT key, place, holder, foundAt FROM damage ORDER BY key, place, holder LIMIT ?',
  countDamage: 'SELECT count(*) AS n FROM damage',
  removeDamage: 'DELETE FROM damage WHERE key = ? AND place = ? AND holder = ?',
  removeAllDamage: 'DELETE FROM damage WHERE key = ?',
  setBlocks: 'INSERT OR REPLACE INTO blocks (key, crcs) VALUES (?, ?)',
  blocks: 'SELECT crcs FROM blocks WHERE key = ?',
  removeBlocks: 'DELETE FROM blocks WHERE key = ?',
  setMark: 'INSERT OR REPLACE INTO marks (name, value) VALUES (?, ?)',
  mark: 'SELECT value FROM marks WHERE name = ?',
  sparseTrunks: `SELECT ${TRUNK_COLUMNS} FROM trunks INDEXED BY trunks_sparse
      WHERE sparse > 0 AND sparse = 1 ORDER BY deadBytes DESC LIMIT ?`,
  // Most often it finds nothing to change, and then it writes nothing.
  markSparse: `UPDATE trunks
      SET sparse = 1 + (files <= coalesce((SELECT d.files FROM dead d WHERE d.trunk = $trunk), 0))
      WHERE id = $trunk AND sparse < 2 AND state = 'confirmed'
        AND (files <= coalesce((SELECT d.files FROM dead d WHERE d.trunk = $trunk), 0)
          OR sparse = 0 AND kind = 'trunk'
            AND contentBytes < 2 * (SELECT d.bytes FROM dead d WHERE d.trunk = $trunk))`,
  aliveIn: `SELECT ${FILE_COLUMNS}, t.kind AS trunkKind, t.fileId AS trunkFileId
      FROM files f INDEXED BY files_by_place JOIN trunks t ON t.id = f.trunk
      WHERE f.trunk = ? AND f.trunkOffset > ? AND f.deleted IS NULL
      ORDER BY f.trunkOffset LIMIT ?`,
  aliveBefore: `SELECT ${FILE_COLUMNS}, t.kind AS trunkKind, t.fileId AS trunkFileId
      FROM files f INDEXED BY files_by_place JOIN trunks t ON t.id = f.trunk
      WHERE f.trunk = ? AND f.trunkOffset < ? AND f.deleted IS NULL
      ORDER BY f.trunkOffset DESC LIMIT ?`,
  unsettledMoves: `SELECT 1 FROM forwards w JOIN files f ON f.key = w.key
      WHERE w.fileId = ? AND f.trunk IS NULL LIMIT 1`,
  deadTrunks: `SELECT ${TRUNK_COLUMNS} FROM trunks INDEXED BY trunks_sparse
      WHERE sparse > 0 AND sparse = 2 ORDER BY id`,
  retireTrunk: "UPDATE trunks SET state = 'retired' WHERE id = ? AND state = 'retiring'",
  missTrunk: "UPDATE trunks SET state = 'missing' WHERE id = ? AND state = 'stored'",
  addDead: `INSERT INTO dead (trunk, files, bytes) VALUES (?, 1, ?) ON CONFLICT (trunk)
      DO UPDATE SET files = files + 1, bytes = bytes + excluded.bytes`,
  trunkByFile: `SELECT ${TRUNK_COLUMNS} FROM trunks WHERE fileId = ?`,
  trunkByTask: `SELECT ${TRUNK_COLUMNS} FROM trunks WHERE taskId = ?`,
  sums: `SELECT state, kind, count(*) AS trunks, coalesce(sum(size), 0) AS bytes,
      coalesce(sum(contentBytes), 0) AS contentBytes,
      coalesce(sum(d.files), 0) AS deadFiles, coalesce(sum(d.bytes), 0) AS deadBytes
      FROM trunks t LEFT JOIN dead d ON d.trunk = t.id GROUP BY state, kind`,
  trunksIn: `SELECT ${TRUNK_COLUMNS} FROM trunks WHERE state = ? ORDER BY id`,
  trunksRecordedIn: `SELECT ${TRUNK_COLUMNS} FROM trunks
      WHERE recordSegment = ? AND (doubtfulSince IS NOT NULL
        OR state IN ('stored', 'missing', 'confirmed', 'retiring'))`,
  members: 'SELECT members FROM trunks WHERE id = ?',
  countTrunks: "SELECT count(*) AS n FROM trunks WHERE state = 'confirmed'",
  indexed: 'SELECT indexedBytes FROM segments WHERE number = ?',
  lastSegment: 'SELECT coalesce(max(number), 0) AS number FROM segments',
  setIndexed: `INSERT INTO segments (number, indexedBytes, syncedBytes) VALUES (?, ?, ?)
      ON CONFLICT (number) DO UPDATE SET indexedBytes = excluded.indexedBytes,
        syncedBytes = max(syncedBytes, excluded.syncedBytes)`,
  synced: 'SELECT syncedBytes FROM segments WHERE number = ?',
  setSynced: 'UPDATE segments SET syncedBytes = max(syncedBytes, ?) WHERE number = ?',
  segments: 'SELECT number FROM segments ORDER BY number',
  forgetSegment: 'DELETE FROM segments WHERE number = ?',
  counters: 'SELECT name, value FROM counters',
  count: 'UPDATE counters SET value = value + ? WHERE name = ?',
};

export type Statements = Readonly<Record<keyof typeof SQL, SqliteStatement>>;

export function prepareStatements(database: SqliteDatabase): Statements {
  const prepared = Object.entries(SQL).map(([name, sql]) => [name, database.prepare(sql)]);
  return Object.fromEntries(prepared) as Statements;
}

import type { SqliteDatabase } from '@stevedore/disk/sqlite';

/** The steps of FileMapWriter, each prepared once. The tables are in schema.ts. */

const SQL = {
  addFile: `INSERT OR IGNORE INTO files
      (key, name, type, grp, size, crc32, stagedAt, segment, position, spooled, expiresAt, once)
      VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
  adoptFile: `INSERT OR IGNORE INTO files
      (key, name, type, grp, size, crc32, stagedAt, segment, position, spooled, was, expiresAt)
      VALUES (?, ?, ?, ?, ?, ?, ?, 0, 0, ?, ?, ?)`,
  claimFile: 'UPDATE files SET trunk = ?, trunkOffset = ?, was = ? WHERE key = ?',
  moveFile: `UPDATE files SET segment = $segment, position = $position, spooled = $spooled,
      trunk = NULL, trunkOffset = NULL, was = $was WHERE key = $key`,
  removeForward: 'DELETE FROM forwards WHERE fileId = ? AND offset = ?',
  returnFile: `UPDATE files SET trunk = $trunk, trunkOffset = $offset, was = $was, segment = 0,
      position = 0, spooled = $spooled WHERE key = $key`,
  uncountDead: 'UPDATE dead SET files = files - 1, bytes = bytes - ? WHERE trunk = ?',
  clearSparse: 'UPDATE trunks SET sparse = 0 WHERE id = ?',
  addForward: 'INSERT OR REPLACE INTO forwards (fileId, offset, key) VALUES (?, ?, ?)',
  removeForwards: 'DELETE FROM forwards WHERE key = ?',
  removeFile: 'DELETE FROM files WHERE key = ?',
  markFile: `UPDATE files SET deleted = $segment, name = '', type = '', grp = NULL,
      spooled = 0, expiresAt = NULL, once = NULL WHERE key = $key`,
  noteMark: 'INSERT INTO marked (segment, key) VALUES (?, ?)',
  listMarked: `INSERT OR IGNORE INTO deletions (key, trunks, recordSegment)
      SELECT key, 0, deleted FROM files INDEXED BY files_by_place
      WHERE trunk = ? AND deleted IS NOT NULL ORDER BY key`,
  removeMarked: `DELETE FROM files
      WHERE key IN (SELECT key FROM files INDEXED BY files_by_place WHERE trunk = ?)
        AND deleted IS NOT NULL`,
  addDeletion: `INSERT INTO deletions (key, trunks, recordSegment)
      VALUES ($key, $trunks, $segment) ON CONFLICT (key) DO UPDATE SET recordSegment = $segment`,
  addHold: 'INSERT OR IGNORE INTO holds (trunk, key) VALUES (?, ?)',
  countHold: 'UPDATE deletions SET trunks = trunks + 1 WHERE key = ?',
  uncountHolds: `UPDATE deletions SET trunks = trunks - 1
      WHERE key IN (SELECT key FROM holds WHERE trunk = ?)`,
  freeHolds: 'DELETE FROM holds WHERE trunk = ?',
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
      contentBytes = $bytes, copied = 0, thin = $thin,
      oldestSegment = (SELECT min(segment) FROM files
        WHERE trunk = $trunk AND spooled = 0 AND segment > 0 AND deleted IS NULL)
      WHERE id = $trunk`,
  countDead: `INSERT OR REPLACE INTO dead (trunk, files, bytes)
      SELECT $trunk, $files - count(*), $bytes - coalesce(sum(size), 0) FROM files
      WHERE trunk = $trunk AND deleted IS NULL`,
  removeAllDamage: 'DELETE FROM damage WHERE key = ?',
  setBlocks: 'INSERT OR REPLACE INTO blocks (key, crcs) VALUES (?, ?)',
  removeBlocks: 'DELETE FROM blocks WHERE key = ?',
  // Most often it finds nothing to change, and then it writes nothing.
  markSparse: `UPDATE trunks
      SET sparse = 1 + (files <= coalesce((SELECT d.files FROM dead d WHERE d.trunk = $trunk), 0))
      WHERE id = $trunk AND sparse < 2 AND state = 'confirmed'
        AND (files <= coalesce((SELECT d.files FROM dead d WHERE d.trunk = $trunk), 0)
          OR sparse = 0 AND kind = 'trunk'
            AND contentBytes < 2 * (SELECT d.bytes FROM dead d WHERE d.trunk = $trunk))`,
  addDead: `INSERT INTO dead (trunk, files, bytes) VALUES (?, 1, ?) ON CONFLICT (trunk)
      DO UPDATE SET files = files + 1, bytes = bytes + excluded.bytes`,
  count: 'UPDATE counters SET value = value + ? WHERE name = ?',
};

type Step = (...values: readonly unknown[]) => { readonly changes: number };

export type Steps = Readonly<Record<keyof typeof SQL, Step>>;

export function prepareSteps(database: SqliteDatabase): Steps {
  const steps = Object.entries(SQL).map(([name, sql]) => {
    const statement = database.prepare(sql);
    return [name, statement.run.bind(statement)] as const;
  });
  return Object.fromEntries(steps) as Record<string, Step> as Steps;
}

import type { SqliteDatabase, SqliteStatement } from '@stevedore/disk/sqlite';
import {
  FACT_VALUES,
  FACTS,
  type FileRow,
  formerPlaces,
  type LocalPlace,
  NEXT_STATES,
  type TrunkKind,
} from './rows.js';

/**
 * Tables of the FileMap. A released schema changes only by adding a step; a FileMap with more steps
 * than this code knows is refused.
 *
 * files.trunk is null until the trunk is confirmed; the partial index over those rows lists what
 * waits for a trunk, in order of arrival. files.was lists the places in earlier trunks that a file
 * was moved from; forwards maps those places to the file.
 *
 * A file that is deleted while one trunk has its bytes, and no other ever had, keeps its row until
 * that trunk is given up: files.deleted names the segment with the deletion's record, and
 * everything else treats the row as gone. So a deletion changes one page of a large table and
 * appends to marked, which lists such rows in the order of deletion, some of them twice or already
 * gone. When the trunk is given up they become ordinary deletions.
 * holds lists the trunks that still have the bytes of ordinary deletions, including the trunks that
 * the files were moved from; deletions.trunks is their number. A deletion may be forgotten once it
 * is zero and the members of every trunk are known.
 * dead counts what is deleted or moved of each trunk, in a separate table: it packs so many trunks
 * into a page that random deletions write few pages. trunks.sparse is 1 when more than half of a
 * confirmed trunk is dead, 2 when all of it is.
 * segments.syncedBytes is the part of a segment known to be durable. With durability os it may be
 * less than what is indexed; then a power failure may leave the FileMap with files that the
 * container does not have.
 *
 * trunks.doubtfulSince is set while FastDFS may hold a copy of the trunk without a record. copied
 * is the time since when enough storages are known to have the trunk, or 0, and oldestSegment is the
 * first segment that must stay until then. thin is how often the files of a trunk have been written
 * while it may be joined with others, else 0; oldestAt is when the oldest of them was staged.
 * lastExpiry is when the last file of a trunk expires, NULL if one never does or it is unknown.
 * pictureOf is the key of the file that a derived file was made of; of once, see once.ts. damage
 * lists copies that must not be read, blocks the checksums of large files, marks the progress of
 * slow walks, of a rebuild and of the outbox, unwanted what must still be removed from FastDFS.
 */
const TABLES = `
  CREATE TABLE files (
    key BLOB PRIMARY KEY,
    name TEXT NOT NULL,
    type TEXT NOT NULL,
    grp TEXT,
    size INTEGER NOT NULL,
    crc32 INTEGER NOT NULL,
    stagedAt INTEGER NOT NULL,
    segment INTEGER NOT NULL,
    position INTEGER NOT NULL,
    spooled INTEGER NOT NULL,
    trunk INTEGER,
    trunkOffset INTEGER,
    was TEXT,
    expiresAt INTEGER,
    once BLOB,
    pictureOf BLOB,
    deleted INTEGER
  ) WITHOUT ROWID;
  CREATE INDEX files_waiting ON files (segment, position) WHERE trunk IS NULL;
  CREATE INDEX files_spooled ON files (key) WHERE spooled = 1;
  CREATE INDEX files_by_place ON files (trunk, trunkOffset) WHERE trunk IS NOT NULL;
  CREATE INDEX files_expiring ON files (expiresAt) WHERE expiresAt IS NOT NULL;
  CREATE INDEX files_once ON files (once) WHERE once IS NOT NULL;
  CREATE INDEX files_by_group ON files (grp, key) WHERE grp IS NOT NULL AND pictureOf IS NULL;
  CREATE INDEX files_derived ON files (key) WHERE pictureOf IS NOT NULL;
  CREATE INDEX files_by_original ON files (pictureOf, key) WHERE pictureOf IS NOT NULL;

  CREATE TABLE trunks (
    id INTEGER PRIMARY KEY,
    taskId BLOB NOT NULL UNIQUE,
    kind TEXT NOT NULL,
    state TEXT NOT NULL,
    fileId TEXT,
    size INTEGER NOT NULL,
    crc32 INTEGER,
    files INTEGER NOT NULL,
    contentBytes INTEGER NOT NULL DEFAULT 0,
    sparse INTEGER NOT NULL DEFAULT 0,
    recordSegment INTEGER NOT NULL,
    members BLOB,
    doubtfulSince INTEGER,
    copied INTEGER NOT NULL DEFAULT 0,
    oldestSegment INTEGER,
    thin INTEGER NOT NULL DEFAULT 0,
    oldestAt INTEGER,
    lastExpiry INTEGER
  );
  CREATE INDEX trunks_by_file ON trunks (fileId);
  CREATE INDEX trunks_by_state ON trunks (state);
  CREATE INDEX trunks_sparse ON trunks (sparse) WHERE sparse > 0;
  CREATE INDEX trunks_doubtful ON trunks (id) WHERE doubtfulSince IS NOT NULL;
  CREATE INDEX trunks_uncopied ON trunks (id) WHERE copied = 0 AND state = 'confirmed';
  CREATE INDEX trunks_thin ON trunks (id) WHERE thin > 0;

  CREATE TABLE dead (
    trunk INTEGER PRIMARY KEY,
    files INTEGER NOT NULL,
    bytes INTEGER NOT NULL
  );

  CREATE TABLE deletions (
    key BLOB PRIMARY KEY,
    trunks INTEGER NOT NULL DEFAULT 0,
    recordSegment INTEGER NOT NULL
  ) WITHOUT ROWID;
  CREATE INDEX deletions_by_segment ON deletions (recordSegment);

  CREATE TABLE marked (id INTEGER PRIMARY KEY, segment INTEGER NOT NULL, key BLOB NOT NULL);
  CREATE INDEX marked_by_segment ON marked (segment);

  CREATE TABLE holds (
    trunk INTEGER NOT NULL,
    key BLOB NOT NULL,
    PRIMARY KEY (trunk, key)
  ) WITHOUT ROWID;

  CREATE TABLE forwards (
    fileId TEXT NOT NULL,
    offset INTEGER NOT NULL,
    key BLOB NOT NULL,
    PRIMARY KEY (fileId, offset)
  ) WITHOUT ROWID;
  CREATE INDEX forwards_by_key ON forwards (key);

  CREATE TABLE segments (
    number INTEGER PRIMARY KEY,
    indexedBytes INTEGER NOT NULL,
    syncedBytes INTEGER NOT NULL DEFAULT 0
  );

  CREATE TABLE damage (
    key BLOB NOT NULL,
    place TEXT NOT NULL,
    holder TEXT NOT NULL,
    foundAt INTEGER NOT NULL,
    PRIMARY KEY (key, place, holder)
  ) WITHOUT ROWID;

  CREATE TABLE blocks (key BLOB PRIMARY KEY, crcs BLOB NOT NULL) WITHOUT ROWID;
  CREATE TABLE marks (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
  CREATE TABLE unwanted (fileId TEXT PRIMARY KEY) WITHOUT ROWID;

  CREATE TABLE counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
  INSERT INTO counters VALUES ('waitingFiles', 0), ('waitingBytes', 0),
    ('spooledFiles', 0), ('spooledBytes', 0), ('mergedFiles', 0), ('mergedBytes', 0),
    ('derivedStagedFiles', 0), ('derivedStagedBytes', 0),
    ('derivedMergedFiles', 0), ('derivedMergedBytes', 0);
`;

export const FILEMAP_SCHEMA: readonly string[] = [TABLES];

const CHANGES = Object.entries(NEXT_STATES).flatMap(([state, next]) =>
  [state, ...next].map((to) => `'${state} ${to}'`),
);

/** Temporary: each process that writes the FileMap enforces the table of its own version. */
export const STATE_TRIGGER = `CREATE TEMP TRIGGER trunk_states BEFORE UPDATE OF state ON main.trunks
  WHEN OLD.state || ' ' || NEW.state NOT IN (${CHANGES.join(', ')})
  BEGIN SELECT RAISE(ABORT, 'the state of a trunk cannot change in this way'); END`;

/** Statements as functions, typed next to their SQL; each is prepared when it is first called. */
export class Statements {
  protected readonly database: SqliteDatabase;

  constructor(database: SqliteDatabase) {
    this.database = database;
  }

  #prepared<Args extends unknown[], Result>(
    sql: string,
    run: (statement: SqliteStatement, args: Args) => unknown,
    shape?: 'raw' | 'pluck',
  ): (...args: Args) => Result {
    let made: SqliteStatement | undefined;
    return (...args) => {
      if (!made) {
        made = this.database.prepare(sql);
        if (shape) made[shape]();
      }
      return run(made, args) as Result;
    };
  }

  protected get<Args extends unknown[], Row>(sql: string) {
    return this.#prepared<Args, Row | undefined>(sql, (made, args) => made.get(...args));
  }

  protected all<Args extends unknown[], Row>(sql: string) {
    return this.#prepared<Args, Row[]>(sql, (made, args) => made.all(...args));
  }

  /** Rows as arrays of their columns: faster where there are thousands. */
  protected rows<Args extends unknown[], Columns>(sql: string) {
    return this.#prepared<Args, Columns[]>(sql, (made, args) => made.all(...args), 'raw');
  }

  /** The first column of each row. */
  protected column<Args extends unknown[], Value>(sql: string) {
    return this.#prepared<Args, Value[]>(sql, (made, args) => made.all(...args), 'pluck');
  }

  /** The first column of the first row. */
  protected value<Args extends unknown[], Value>(sql: string) {
    return this.#prepared<Args, Value | undefined>(sql, (made, args) => made.get(...args), 'pluck');
  }

  /** As `value`; 0 if there is none. */
  protected number<Args extends unknown[]>(sql: string) {
    return this.#prepared<Args, number>(sql, (made, args) => made.get(...args) ?? 0, 'pluck');
  }

  protected exists<Args extends unknown[]>(sql: string) {
    return this.#prepared<Args, boolean>(sql, (made, args) => made.get(...args) !== undefined);
  }

  protected run<Args extends unknown[]>(sql: string) {
    return this.#prepared<Args, { readonly changes: number }>(sql, (made, args) =>
      made.run(...args),
    );
  }

  /** For SELECTs that begin with FILES or WAITING. */
  protected file<Args extends unknown[]>(sql: string) {
    const found = (made: SqliteStatement, args: Args) => {
      const columns = made.get(...args) as FileColumns | undefined;
      return columns && fileRow(columns);
    };
    return this.#prepared<Args, FileRow | undefined>(sql, found, 'raw');
  }

  protected files<Args extends unknown[]>(sql: string): (...args: Args) => FileRow[] {
    const rows = this.rows<Args, FileColumns>(sql);
    return (...args) => rows(...args).map(fileRow);
  }

  protected steps<Name extends string>(texts: Readonly<Record<Name, string>>): Steps<Name> {
    const steps = Object.entries<string>(texts).map(([name, sql]) => [name, this.run(sql)]);
    return Object.fromEntries(steps) as Steps<Name>;
  }
}

export type Steps<Name extends string> = Readonly<
  Record<Name, (...values: unknown[]) => { readonly changes: number }>
>;

const FILE_COLUMNS = `f.key, f.name, f.type, f.grp, f.size, f.crc32, f.stagedAt, f.expiresAt, f.was,
  f.spooled, f.segment, f.position, f.trunk, f.trunkOffset, f.once, f.pictureOf`;
/**
 * `FROM files f`, where `t` is the file's trunk. Whether a trunk is thin is known once it is
 * confirmed: until then a file in it has no id, because it would lose the id if trunks are joined.
 */
export const FILES = `SELECT ${FILE_COLUMNS}, t.kind, t.fileId,
  t.thin > 0 OR t.state = 'stored' FROM files f`;
/** For waiting files, which have no trunk. */
export const WAITING = `SELECT ${FILE_COLUMNS}, NULL, NULL, NULL FROM files f`;
export const TRUNKS = `SELECT id, taskId, kind, state, coalesce(fileId, '') AS fileId, size, crc32, files, contentBytes,
  recordSegment, doubtfulSince, copied, thin, oldestAt,
  coalesce((SELECT d.files FROM dead d WHERE d.trunk = trunks.id), 0) AS deadFiles,
  coalesce((SELECT d.bytes FROM dead d WHERE d.trunk = trunks.id), 0) AS deadBytes FROM trunks`;

type FileColumns = readonly [
  key: Buffer,
  name: string,
  type: string,
  group: string | null,
  size: number,
  crc32: number,
  stagedAt: number,
  expiresAt: number | null,
  was: string | null,
  spooled: 0 | 1 | 2,
  segment: number,
  position: number,
  trunk: number | null,
  offset: number | null,
  once: Buffer | null,
  pictureOf: Buffer | null,
  kind: TrunkKind | null,
  fileId: string | null,
  isThin: 0 | 1 | null,
];

/** The meaning of `files.spooled`, by its number. */
export const PLACES: readonly LocalPlace['at'][] = ['container', 'spool', 'gone'];

/** The only place that decodes where the table says a file is. */
function fileRow(columns: FileColumns): FileRow {
  const [key, name, type, group, size, crc32, stagedAt, expiresAt, was, spooled] = columns;
  const trunk = columns[12];
  return {
    // A copy in Node's pool: a Buffer of its own takes 250 bytes.
    key: Buffer.from(key),
    name,
    type,
    group: group ?? undefined,
    size,
    crc32,
    stagedAt,
    expiresAt: expiresAt ?? undefined,
    once: columns[14]?.toString('base64url'),
    pictureOf: columns[15] ? Buffer.from(columns[15]) : undefined,
    was: formerPlaces(was),
    local: { at: PLACES[spooled]!, segment: columns[10], position: columns[11] },
    trunk:
      trunk === null
        ? undefined
        : {
            id: trunk,
            kind: columns[16]!,
            fileId: columns[17]!,
            offset: columns[13]!,
            isThin: columns[18] === 1,
          },
  };
}

/** The steps of FileMapWriter. */
export const WRITER_STEPS = {
  addFile: `INSERT OR IGNORE INTO files (${FACTS}, segment, position, spooled)
      VALUES (${FACT_VALUES}, $segment, $position, $spooled)`,
  /** As `addFile`, of a file without the rest: to bind nothing costs as much as to bind something. */
  addPlain: `INSERT OR IGNORE INTO files (key, name, type, size, crc32, stagedAt, segment, position,
      spooled) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
  adoptFile: `INSERT OR IGNORE INTO files (${FACTS}, segment, position, spooled, was)
      VALUES (${FACT_VALUES}, 0, 0, $spooled, $was)`,
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
      spooled = 0, expiresAt = NULL, once = NULL, pictureOf = NULL WHERE key = $key`,
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
      contentBytes = $bytes, copied = 0, thin = $thin, oldestAt = $oldestAt, lastExpiry = $lastExpiry,
      oldestSegment = $oldestSegment
      WHERE id = $trunk`,
  // Members may have been deleted since they were confirmed.
  addMissing: `INSERT INTO dead (trunk, files, bytes) VALUES ($trunk, $files, $bytes)
      ON CONFLICT (trunk) DO UPDATE SET files = files + $files, bytes = bytes + $bytes`,
  countDead: `INSERT OR REPLACE INTO dead (trunk, files, bytes)
      SELECT $trunk, $files - count(*), $bytes - coalesce(sum(size), 0) FROM files
      WHERE trunk = $trunk AND deleted IS NULL`,
  removeAllDamage: 'DELETE FROM damage WHERE key = ?',
  removeBlocks: 'DELETE FROM blocks WHERE key = ?',
  // Usually there is nothing to change, and then it writes nothing.
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

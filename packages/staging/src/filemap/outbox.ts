import type { SqliteDatabase } from '@stevedore/disk/sqlite';
import { aboutOf } from './about.js';
import { formerPlaces, type TrunkRow } from './rows.js';
import { Statements, TRUNKS } from './schema.js';

/**
 * Changes of this FileMap that the deployment's map does not have yet: trunks confirmed, moved or
 * retired, and files deleted. Triggers add an entry in the transaction of
 * the change itself, so no change is missed. Entries are read in order, and deleted once they are
 * in the map.
 */

/** What the map stores of a file in a trunk. */
export interface PublishedFile {
  readonly key: Buffer;
  /** Of its first byte in the trunk. */
  readonly offset: number;
  readonly size: number;
  readonly crc32: number;
  readonly about: string;
  readonly expiresAt: number | null;
}

export type OutboxEntry =
  /**
   * Files of the trunk are where their rows say; `files` reads those that are alive, by offset,
   * behind the offset `after`.
   */
  | {
      readonly id: number;
      readonly what: 'trunk';
      readonly trunk: TrunkRow;
      readonly files: (after: number, limit: number) => readonly PublishedFile[];
    }
  /** `taskId`: of the trunk that has the bytes, if that is known. */
  | {
      readonly id: number;
      readonly what: 'deletion';
      readonly key: Buffer;
      readonly taskId: Buffer | undefined;
    };

const TABLE = 'CREATE TABLE outbox (id INTEGER PRIMARY KEY, trunk INTEGER, key BLOB)';

/** Enters the whole content of a FileMap when its deployment gets a map. */
const EVERYTHING = `
  INSERT INTO outbox (trunk) SELECT id FROM trunks
    WHERE state IN ('confirmed', 'retiring', 'retired') ORDER BY id;
  INSERT INTO outbox (trunk, key) SELECT trunk, key FROM holds;
  INSERT INTO outbox (key) SELECT key FROM deletions;
  INSERT INTO outbox (key) SELECT key FROM marked;`;

// Temporary triggers: a FileMap that is opened without a map has none. A deleted member that a
// trunk turns out to have, for example after a FileMap was lost, is a hold. None of them runs for
// each file of a trunk that is confirmed: only a file that returns to its former trunk changes its
// segment with its trunk.
const TRIGGERS = `
  CREATE TEMP TRIGGER outbox_new_trunk AFTER INSERT ON main.trunks
    WHEN NEW.state IN ('confirmed', 'retiring', 'retired')
    BEGIN INSERT INTO outbox (trunk) VALUES (NEW.id); END;
  CREATE TEMP TRIGGER outbox_trunk AFTER UPDATE OF state, fileId, thin ON main.trunks
    WHEN NEW.state IN ('confirmed', 'retiring', 'retired')
      AND (OLD.state <> NEW.state OR OLD.fileId IS NOT NEW.fileId OR OLD.thin <> NEW.thin)
    BEGIN INSERT INTO outbox (trunk) VALUES (NEW.id); END;
  CREATE TEMP TRIGGER outbox_returned AFTER UPDATE OF segment ON main.files
    WHEN OLD.trunk IS NULL AND NEW.trunk IS NOT NULL
      AND (SELECT state FROM trunks WHERE id = NEW.trunk) = 'confirmed'
    BEGIN INSERT INTO outbox (trunk) VALUES (NEW.trunk); END;
  CREATE TEMP TRIGGER outbox_marked AFTER UPDATE OF deleted ON main.files
    WHEN OLD.deleted IS NULL AND NEW.deleted IS NOT NULL
    BEGIN INSERT INTO outbox (trunk, key) VALUES (NEW.trunk, NEW.key); END;
  CREATE TEMP TRIGGER outbox_deleted AFTER DELETE ON main.files
    WHEN OLD.deleted IS NULL
    BEGIN INSERT INTO outbox (trunk, key) VALUES (OLD.trunk, OLD.key); END;
  CREATE TEMP TRIGGER outbox_held AFTER INSERT ON main.holds
    BEGIN INSERT INTO outbox (trunk, key) VALUES (NEW.trunk, NEW.key); END;`;

/** Which changes a FileMap records for the map of a deployment. */
export type Publishes =
  /** There is no map. */
  | 'nothing'
  /** Those from now on, and everything if there was no map before. */
  | 'changes'
  /** Everything, unless an earlier opening entered it and not all of it is published yet. */
  | 'everything'
  /** Those from now on, if there was a map before. */
  | 'as before';

/**
 * Mark of the last entry of a complete fill: while one of its entries waits, no other fill is
 * needed.
 */
const FILL_MARK = 'fill';

export class Outbox extends Statements {
  readonly #entries = this.all<
    [limit: number],
    { readonly id: number; readonly trunk: number | null; readonly key: Buffer | null }
  >('SELECT id, trunk, key FROM outbox ORDER BY id LIMIT ?');
  readonly #trunk = this.get<[id: number], TrunkRow>(`${TRUNKS} WHERE id = ?`);
  readonly #files = this.rows<[trunk: number, after: number, limit: number], PublishedColumns>(
    `SELECT key, trunkOffset, size, crc32, expiresAt, name, type, grp, stagedAt, was, once, pictureOf
      FROM files WHERE trunk = ? AND trunkOffset > ? AND deleted IS NULL ORDER BY trunkOffset LIMIT ?`,
  );
  readonly #forget = this.run<[upTo: number]>('DELETE FROM outbox WHERE id <= ?');
  readonly #endFill = this.run<[upTo: number]>(
    `DELETE FROM marks WHERE name = '${FILL_MARK}' AND CAST(value AS INTEGER) <= ?`,
  );
  readonly #count = this.number<[]>('SELECT count(*) FROM outbox');

  private constructor(database: SqliteDatabase) {
    super(database);
    database.exec(TRIGGERS);
  }

  /**
   * The outbox of a FileMap; undefined without a map. Changes made while it had none are unknown,
   * so everything is entered again.
   */
  static open(database: SqliteDatabase, publishes: Publishes): Outbox | undefined {
    const isThere =
      database
        .prepare("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'outbox'")
        .get() !== undefined;
    const isWanted = publishes === 'as before' ? isThere : publishes !== 'nothing';
    if (isThere && !isWanted) database.exec('DROP TABLE outbox');
    if (isWanted && !isThere) database.transaction(() => database.exec(`${TABLE};${EVERYTHING}`))();
    else if (publishes === 'everything') enterAll(database);
    return isWanted ? new Outbox(database) : undefined;
  }

  get pending(): number {
    return this.#count();
  }

  read(limit: number): OutboxEntry[] {
    const entries: OutboxEntry[] = [];
    for (const { id, trunk: number, key } of this.#entries(limit)) {
      const trunk = number === null ? undefined : this.#trunk(number);
      if (key) entries.push({ id, what: 'deletion', key, taskId: trunk?.taskId });
      else if (trunk) {
        entries.push({
          id,
          what: 'trunk',
          trunk,
          files: (after, limit) => this.#files(trunk.id, after, limit).map(publishedFile),
        });
      }
    }
    return entries;
  }

  /** Deletes the entries up to this one, which the map has stored. */
  forget(upTo: number): void {
    this.#forget(upTo);
    this.#endFill(upTo);
  }
}

type PublishedColumns = readonly [
  key: Buffer,
  offset: number,
  size: number,
  crc32: number,
  expiresAt: number | null,
  name: string,
  type: string,
  group: string | null,
  stagedAt: number,
  was: string | null,
  once: Buffer | null,
  pictureOf: Buffer | null,
];

function publishedFile(columns: PublishedColumns): PublishedFile {
  const [key, offset, size, crc32, expiresAt, name, type, group, stagedAt, was] = columns;
  const about = aboutOf({
    name,
    type,
    group: group ?? undefined,
    stagedAt,
    expiresAt: expiresAt ?? undefined,
    was: formerPlaces(was),
    once: columns[10]?.toString('base64url'),
    pictureOf: columns[11] ?? undefined,
  });
  return { key, offset, size, crc32, about, expiresAt };
}

function enterAll(database: SqliteDatabase): void {
  const value = (sql: string) => database.prepare(sql).pluck().get() as number | null | undefined;
  const last = value(`SELECT CAST(value AS INTEGER) FROM marks WHERE name = '${FILL_MARK}'`);
  const first = value('SELECT min(id) FROM outbox');
  if (last != null && first != null && first <= last) return;
  database.transaction(() => {
    database.exec(EVERYTHING);
    database.exec(
      `INSERT OR REPLACE INTO marks (name, value)
        SELECT '${FILL_MARK}', coalesce(max(id), 0) FROM outbox`,
    );
  })();
}

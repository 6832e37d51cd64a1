import { open } from 'node:fs/promises';
import {
  applySchema,
  LOOP_WAIT_MS,
  openDatabase,
  type SqliteDatabase,
} from '@stevedore/disk/sqlite';
import { LOST_SEGMENT } from '../container/record.js';
import { LOG_PAGES } from './checkpoints.js';
import { OPENING_WAIT_MS } from './locks.js';
import { Outbox, type Publishes } from './outbox.js';
import type { Counters, DamagedCopy } from './rows.js';
import { FILEMAP_SCHEMA, STATE_TRIGGER } from './schema.js';
import { FileMapWriter } from './writer.js';

export * from './rows.js';

/**
 * The FileMap: an index over container and trunks. Every change comes from a record of the
 * container. One transaction commits it together with the position up to which the record's segment
 * is indexed. If the last transactions are lost, or all of them, replaying the records restores
 * them. So commits need not sync; `makeDurable` makes the FileMap durable before segments are
 * removed.
 */

const CACHE_KIB = 32 * 1024;

export class FileMap extends FileMapWriter {
  /** Undefined if the deployment has no map. */
  readonly outbox: Outbox | undefined;
  /** The file of the log (WAL). */
  readonly logPath: string;

  /** The merged file's copy in the container must not be read any more. */
  readonly forgetLocal = this.run<[key: Buffer]>(
    'UPDATE files SET segment = 0, position = 0 WHERE key = ? AND trunk IS NOT NULL',
  );

  /** The large file's spool file is gone. */
  readonly forgetSpooled = this.run<[key: Buffer]>('UPDATE files SET spooled = 2 WHERE key = ?');

  /** The retiring trunk is gone from FastDFS. */
  readonly retireTrunk = this.run<[trunk: number]>(
    "UPDATE trunks SET state = 'retired' WHERE id = ? AND state = 'retiring'",
  );

  /** The stored trunk was to be read back, and FastDFS has no such file. */
  readonly missTrunk = this.run<[trunk: number]>(
    "UPDATE trunks SET state = 'missing' WHERE id = ? AND state = 'stored'",
  );

  /** Abandons the trunk; FastDFS may hold what was sent of it. */
  readonly abandonTrunk = this.run<[now: number, trunk: number]>(
    `UPDATE trunks SET state = 'abandoned', doubtfulSince = ?,
      members = CASE kind WHEN 'whole' THEN members END WHERE id = ?`,
  );

  /** FastDFS may hold a copy of the trunk without a record, since that time. */
  readonly doubt = this.run<[now: number, trunk: number]>(
    'UPDATE trunks SET doubtfulSince = ? WHERE id = ?',
  );

  /** FastDFS holds none: the search was complete. */
  readonly settleDoubt = this.run<[trunk: number]>(
    `UPDATE trunks SET doubtfulSince = NULL,
      state = CASE state WHEN 'abandoned' THEN 'retired' ELSE state END,
      members = CASE state WHEN 'abandoned' THEN NULL ELSE members END WHERE id = ?`,
  );

  /** Enough storages have it since then: the copies on this disk may be removed. */
  readonly setCopied = this.run<[now: number, trunk: number]>(
    'UPDATE trunks SET copied = ? WHERE id = ?',
  );

  /** The file must be removed from FastDFS, however often that fails. */
  readonly addUnwanted = this.run<[fileId: string]>(
    'INSERT OR IGNORE INTO unwanted (fileId) VALUES (?)',
  );

  /** No id of a file in that trunk was ever issued, so no forwarding rows are needed. */
  readonly removeForwards = this.run<[fileId: string, limit: number]>(
    `DELETE FROM forwards WHERE (fileId, offset) IN
      (SELECT fileId, offset FROM forwards WHERE fileId = ? LIMIT ?)`,
  );

  readonly removeUnwanted = this.run<[fileId: string]>('DELETE FROM unwanted WHERE fileId = ?');

  readonly removeDamage = this.run<[Omit<DamagedCopy, 'foundAt'>]>(
    'DELETE FROM damage WHERE key = $key AND place = $place AND holder = $holder',
  );

  readonly setMark = this.run<[name: string, value: string]>(
    'INSERT OR REPLACE INTO marks (name, value) VALUES (?, ?)',
  );

  /** `bytes` of the segment are known to be durable. */
  readonly setSynced = this.run<[bytes: number, segment: number]>(
    'UPDATE segments SET syncedBytes = max(syncedBytes, ?) WHERE number = ?',
  );

  readonly #addDamage = this.run<[DamagedCopy]>(
    `INSERT OR IGNORE INTO damage (key, place, holder, foundAt)
      VALUES ($key, $place, $holder, $foundAt)`,
  );
  readonly #loseFile = this.run<[segment: number, key: Buffer]>(
    'UPDATE files SET segment = ?, position = 0 WHERE key = ? AND trunk IS NULL',
  );
  readonly #setCount = this.run<[value: number, name: string]>(
    'UPDATE counters SET value = ? WHERE name = ?',
  );
  readonly #forgetDeletions = this.run<[segment: number]>(
    'DELETE FROM deletions WHERE recordSegment = ? AND trunks = 0',
  );
  readonly #forgetMarked = this.run<[segment: number]>('DELETE FROM marked WHERE segment = ?');
  readonly #forgetSegment = this.run<[segment: number]>('DELETE FROM segments WHERE number = ?');

  private constructor(database: SqliteDatabase, publishes: Publishes) {
    super(database);
    this.logPath = `${database.name}-wal`;
    this.outbox = Outbox.open(database, publishes);
  }

  /**
   * Throws if the file is not a sound database; the caller moves it aside and rebuilds.
   */
  static open(path: string, publishes: Publishes = 'nothing'): FileMap {
    const database = openDatabase(path, { timeout: OPENING_WAIT_MS });
    try {
      database.pragma('journal_mode = WAL');
      database.pragma('synchronous = NORMAL');
      database.pragma(`wal_autocheckpoint = ${LOG_PAGES}`);
      database.pragma(`cache_size = -${CACHE_KIB}`);
      applySchema(database, FILEMAP_SCHEMA);
      database.exec(STATE_TRIGGER);
      const fileMap = new FileMap(database, publishes);
      database.pragma(`busy_timeout = ${LOOP_WAIT_MS}`);
      return fileMap;
    } catch (error) {
      database.close();
      throw error;
    }
  }

  /** The file's only bytes are lost: it no longer keeps a segment. */
  loseFile(key: Buffer): void {
    this.#loseFile(LOST_SEGMENT, key);
  }

  /** Makes thin trunks final: their files have ids from now on. */
  readonly keepThinTrunks = this.run<[]>('UPDATE trunks SET thin = 0 WHERE thin > 0');

  /** False if the copy was already known to be damaged. */
  addDamage(copy: DamagedCopy): boolean {
    return this.#addDamage(copy).changes === 1;
  }

  setCounters(counters: Counters): void {
    for (const [name, value] of Object.entries(counters)) this.#setCount(value, name);
  }

  forgetSegment(segment: number): void {
    this.#forgetDeletions(segment);
    this.#forgetMarked(segment);
    this.#forgetSegment(segment);
  }

  /**
   * Makes all transactions so far durable. The main file lacks those that the log has, so the log is
   * all that must be synced, even while another program reads the FileMap.
   */
  async makeDurable(): Promise<void> {
    const log = await open(this.logPath, 'r+');
    try {
      await log.datasync();
    } finally {
      await log.close();
    }
  }

  /** Resolves when nothing has the file open any more. */
  async close(): Promise<void> {
    const stopped = this.checkpoints.stop();
    this.database.close();
    await stopped;
  }
}

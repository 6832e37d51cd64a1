import { open } from 'node:fs/promises';
import { Worker } from 'node:worker_threads';
import {
  applySchema,
  LOOP_WAIT_MS,
  openDatabase,
  type SqliteDatabase,
} from '@stevedore/disk/sqlite';
import { LOST_SEGMENT } from '../container/record.js';
import { OPENING_WAIT_MS } from './locks.js';
import { type HasMap, Outbox } from './outbox.js';
import { FileMapQueries } from './queries.js';
import type {
  AdoptedFile,
  Confirmed,
  Counters,
  DamagedCopy,
  FileMapChange,
  PlannedMember,
  PlannedTrunk,
  TrunkRow,
} from './rows.js';
import { NONE_CONFIRMED } from './rows.js';
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

export class FileMap extends FileMapQueries {
  /** Undefined if the deployment has no map. */
  readonly outbox: Outbox | undefined;
  /** The file of the log (WAL). */
  readonly logPath: string;
  readonly #database: SqliteDatabase;
  readonly #checkpoints: Checkpoints;
  readonly #transact: (work: (writer: FileMapWriter) => void) => void;

  /** The merged file's copy in the container must not be read any more. */
  readonly forgetLocal = this.run<[key: Buffer]>(
    'UPDATE files SET segment = 0, position = 0 WHERE key = ? AND trunk IS NOT NULL',
  );

  /** The large file's spool file is gone. */
  readonly forgetSpooled = this.run<[key: Buffer]>('UPDATE files SET spooled = 2 WHERE key = ?');

  readonly setBlocks = this.run<[key: Buffer, crcs: Buffer]>(
    'INSERT OR REPLACE INTO blocks (key, crcs) VALUES (?, ?)',
  );

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
  readonly #setIndexed = this.run<[segment: number, indexed: number, synced: number]>(
    `INSERT INTO segments (number, indexedBytes, syncedBytes) VALUES (?, ?, ?)
      ON CONFLICT (number) DO UPDATE SET indexedBytes = excluded.indexedBytes,
        syncedBytes = max(syncedBytes, excluded.syncedBytes)`,
  );
  readonly #forgetDeletions = this.run<[segment: number]>(
    'DELETE FROM deletions WHERE recordSegment = ? AND trunks = 0',
  );
  readonly #forgetMarked = this.run<[segment: number]>('DELETE FROM marked WHERE segment = ?');
  readonly #forgetSegment = this.run<[segment: number]>('DELETE FROM segments WHERE number = ?');

  private constructor(database: SqliteDatabase, hasMap: HasMap) {
    super(database);
    this.#database = database;
    this.logPath = `${database.name}-wal`;
    this.outbox = Outbox.open(database, hasMap);
    this.#checkpoints = new Checkpoints(database.name);
    const writer = new FileMapWriter(database, this);
    this.#transact = database.transaction((work: (writer: FileMapWriter) => void) => {
      writer.begin();
      work(writer);
      writer.finish();
    });
  }

  /**
   * `hasMap`: changes are recorded for the deployment's map. Throws if the file is not a sound
   * database; the caller moves it aside and rebuilds.
   */
  static open(path: string, hasMap: HasMap = false): FileMap {
    const database = openDatabase(path, { timeout: OPENING_WAIT_MS });
    try {
      database.pragma('journal_mode = WAL');
      database.pragma('synchronous = NORMAL');
      database.pragma(`wal_autocheckpoint = ${LOG_PAGES}`);
      database.pragma(`cache_size = -${CACHE_KIB}`);
      applySchema(database, FILEMAP_SCHEMA);
      database.exec(STATE_TRIGGER);
      const fileMap = new FileMap(database, hasMap);
      database.pragma(`busy_timeout = ${LOOP_WAIT_MS}`);
      return fileMap;
    } catch (error) {
      database.close();
      throw error;
    }
  }

  /**
   * Applies all changes of one segment's records up to `indexedBytes`, in one transaction.
   * `syncedBytes` of the segment are known to be durable.
   */
  apply(
    changes: readonly FileMapChange[],
    segment: number,
    indexedBytes: number,
    syncedBytes = 0,
  ): void {
    this.#write(changes.length, (writer) => {
      for (const change of changes) writer.change(change, segment);
      this.#setIndexed(segment, indexedBytes, syncedBytes);
    });
  }

  /** Points the members' rows at the trunk; members deleted since become its dead bytes. */
  confirmMembers(trunk: number, members: readonly PlannedMember[]): Confirmed {
    let confirmed = NONE_CONFIRMED;
    this.#write(members.length, (writer) => {
      confirmed = writer.confirmMembers(trunk, members);
    });
    return confirmed;
  }

  /** As `confirmMembers`, for a trunk of an earlier process: some may have moved on since. */
  confirmUnmoved(trunk: TrunkRow, members: readonly PlannedMember[]): void {
    this.#write(members.length, (writer) => writer.confirmUnmoved(trunk, members));
  }

  /** Adds rows for members of a trunk that only its own directory describes. */
  adoptMembers(trunk: TrunkRow, entries: readonly AdoptedFile[]): void {
    this.#write(entries.length, (writer) => writer.adoptMembers(trunk, entries));
  }

  /**
   * Confirms the trunk, once every living member's row points at it; the rest of it is dead.
   * Without `confirmed`, the rows are counted.
   */
  finishTrunk(
    trunk: number,
    files: number,
    contentBytes: number,
    plan?: PlannedTrunk,
    confirmed?: Confirmed,
  ): void {
    this.#write(1, (writer) => writer.finishTrunk(trunk, files, contentBytes, plan, confirmed));
  }

  /**
   * Rolls a moved file back to its former place: its new bytes are lost. False if that place is
   * gone.
   */
  rollBackMove(key: Buffer): boolean {
    let isBack = false;
    this.#write(1, (writer) => {
      isBack = writer.rollBackMove(key);
    });
    return isBack;
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
    const stopped = this.#checkpoints.stop();
    this.#database.close();
    await stopped;
  }

  /** Runs one transaction that changes about this many rows. */
  #write(changes: number, work: (writer: FileMapWriter) => void): void {
    this.#transact(work);
    this.#checkpoints.note(changes);
  }
}

/**
 * Checkpoints the FileMap's log (WAL) into its main file, in a separate thread. With millions of
 * files, almost every page of the log belongs to a different part of the main file, and writing and
 * syncing those would stall uploads and reads for tens of milliseconds. The thread starts when it
 * is first needed.
 *
 * Nothing depends on it: if the thread has ended or cannot keep up, SQLite checkpoints within a
 * commit once the log has LOG_PAGES.
 */

/** The log is checkpointed when it has grown by about this many pages of 4 KiB. */
const PAGES_AT_ONCE = 1_000;
/** 32 MiB. */
export const LOG_PAGES = 8 * PAGES_AT_ONCE;
/** Estimated pages per transaction, and per change in it. */
const PAGES_PER_TRANSACTION = 4;
const PAGES_PER_CHANGE = 2;
const WORKER_MEMORY_MIB = 16;

export class Checkpoints {
  readonly #path: string;
  /** Estimated pages written since the thread was last asked. */
  #pages = 0;
  #worker: Worker | undefined;
  #ended: Promise<void> = Promise.resolve();
  #isOver = false;

  constructor(path: string) {
    this.#path = path;
  }

  /** A transaction was committed. */
  note(changes: number): void {
    this.#pages += PAGES_PER_TRANSACTION + PAGES_PER_CHANGE * changes;
    if (this.#pages < PAGES_AT_ONCE || this.#isOver) return;
    this.#pages = 0;
    this.#worker ??= this.#begin();
    this.#worker.postMessage(undefined);
  }

  /** Resolves when the thread has ended. */
  stop(): Promise<void> {
    this.#isOver = true;
    // The caller waits for the thread, so it must keep the process alive.
    this.#worker?.ref();
    this.#worker?.postMessage('end');
    return this.#ended;
  }

  #begin(): Worker {
    const worker = new Worker(new URL('./checkpoint-worker.js', import.meta.url), {
      workerData: this.#path,
      name: 'stevedore-filemap',
      resourceLimits: {
        maxOldGenerationSizeMb: WORKER_MEMORY_MIB,
        maxYoungGenerationSizeMb: WORKER_MEMORY_MIB / 4,
      },
    });
    // It fails if the file is damaged or the disk fails. The users of the FileMap get the same
    // error and handle it.
    worker.on('error', () => undefined);
    this.#ended = new Promise((resolve) => {
      worker.once('exit', () => {
        this.#isOver = true;
        resolve();
      });
    });
    worker.unref();
    return worker;
  }
}

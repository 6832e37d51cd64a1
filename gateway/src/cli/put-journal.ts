import { closeSync, mkdirSync, openSync } from 'node:fs';
import { dirname } from 'node:path';
import { openDatabase, type SqliteDatabase, type SqliteStatement } from '@stevedore/disk/sqlite';

/**
 * What `put` has stored or begun to send, by gateway and path, so that it does not store a file
 * twice. A SQLite database on the client's disk: a million files cost no memory, a killed process
 * loses no commit, and several may write at once. The gateway is asked before a file is skipped,
 * so a lost or outdated journal costs uploads, never files.
 */

export interface PutEntry {
  /** Changes with the file on this disk. */
  readonly state: string;
  /** As it was sent; empty for no group. */
  readonly name: string;
  readonly affinityGroup: string;
  /** Empty while it is being sent, and after that if the answer did not come. */
  readonly key: string;
}

interface PutRow extends PutEntry {
  readonly gateway: string;
  readonly path: string;
}

const LAYOUT_VERSION = 1;
const LAYOUT = `
  DROP TABLE IF EXISTS puts;
  CREATE TABLE puts (
    gateway TEXT NOT NULL,
    path TEXT NOT NULL,
    state TEXT NOT NULL,
    name TEXT NOT NULL,
    affinityGroup TEXT NOT NULL,
    key TEXT NOT NULL,
    PRIMARY KEY (gateway, path)
  ) WITHOUT ROWID;
  PRAGMA user_version = ${LAYOUT_VERSION};`;

export class PutJournal {
  readonly #database: SqliteDatabase;
  readonly #gateway: string;
  readonly #find: SqliteStatement<[string, string], PutEntry>;
  readonly #record: SqliteStatement<[PutRow]>;

  private constructor(database: SqliteDatabase, gateway: string) {
    this.#database = database;
    this.#gateway = gateway;
    this.#find = database.prepare(
      'SELECT state, name, affinityGroup, key FROM puts WHERE gateway = ? AND path = ?',
    );
    this.#record = database.prepare(
      'REPLACE INTO puts VALUES (@gateway, @path, @state, @name, @affinityGroup, @key)',
    );
  }

  /** Throws an error that names the file. */
  static open(path: string, gateway: string): PutJournal {
    try {
      return PutJournal.#open(path, gateway);
    } catch (error) {
      throw new Error(`${path} cannot be used: ${(error as Error).message}`, { cause: error });
    }
  }

  static #open(path: string, gateway: string): PutJournal {
    // It contains keys, and anyone who has a key can read the file.
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
    closeSync(openSync(path, 'a', 0o600));
    const database = openDatabase(path);
    try {
      database.pragma('journal_mode = WAL');
      database.pragma('synchronous = NORMAL');
      const prepareLayout = database.transaction(() => {
        if (database.pragma('user_version', { simple: true }) === LAYOUT_VERSION) return;
        database.exec(LAYOUT);
      });
      prepareLayout.immediate();
      return new PutJournal(database, gateway);
    } catch (error) {
      database.close();
      throw error;
    }
  }

  find(path: string): PutEntry | undefined {
    return this.#find.get(this.#gateway, path);
  }

  record(path: string, entry: PutEntry): void {
    this.#record.run({ gateway: this.#gateway, path, ...entry });
  }

  close(): void {
    this.#database.close();
  }
}

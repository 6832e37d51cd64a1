import { closeSync, openSync, rmSync } from 'node:fs';
import Database from 'better-sqlite3';

/**
 * Opens SQLite databases that are never garbage-collected. From 24.19 on, Node ends the process if
 * an object of better-sqlite3 12 is collected while no script runs, so every database and statement
 * is held until the process ends. This costs little: a process opens few databases, prepares
 * statements once, and `close` still frees their memory in SQLite.
 */

export type SqliteDatabase = Database.Database;
export type SqliteStatement<
  Bound extends unknown[] = unknown[],
  Result = unknown,
> = Database.Statement<Bound, Result>;

/** This Node cannot load the compiled part of better-sqlite3. */
export class SqliteBindingError extends Error {
  override readonly name = 'SqliteBindingError';
}

/**
 * A log (WAL) grows past its checkpoints while a reader, such as a backup, holds an old snapshot.
 * SQLite cuts it back to this once the reader is gone; otherwise it would keep its largest size.
 * More than a FileMap's log has between two checkpoints.
 */
export const LOG_LIMIT_BYTES = 32 * 2 ** 20;

/** How long a call on the event loop may wait for another program's lock: `busy_timeout`. */
export const LOOP_WAIT_MS = 10;

const held: object[] = [];

/**
 * As `new Database(path, options)`, for files that only their owner may read: SQLite gives its log
 * the mode of the database. Each pragma text is prepared once. Throws SqliteBindingError if no
 * database can be opened at all.
 */
export function openDatabase(path: string, options?: Database.Options): SqliteDatabase {
  const database = newDatabase(path, options);
  held.push(database);
  const pragmas = new Map<string, Database.Statement>();
  const prepare = database.prepare.bind(database);

  database.prepare = ((source: string) => {
    const statement = prepare(source);
    held.push(statement);
    return statement;
  }) as typeof database.prepare;

  database.pragma = (source: string, { simple = false }: Database.PragmaOptions = {}): unknown => {
    let statement = pragmas.get(source);
    if (!statement) {
      statement = prepare(`PRAGMA ${source}`);
      pragmas.set(source, statement);
      held.push(statement);
    }
    if (!statement.reader) {
      statement.run();
      return simple ? undefined : [];
    }
    if (!simple) return statement.all();
    return Object.values((statement.get() ?? {}) as object)[0];
  };
  if (options?.readonly !== true) database.pragma(`journal_size_limit = ${LOG_LIMIT_BYTES}`);
  return database;
}

/**
 * Migrates a database to the schema of `steps` in one transaction. Step n leads from version n to n
 * + 1; `user_version` is the number of steps done. Throws if a later program has done more steps.
 */
export function applySchema(database: SqliteDatabase, steps: readonly string[]): void {
  const done = database.pragma('user_version', { simple: true }) as number;
  if (done > steps.length) {
    throw new Error(`its schema is version ${done}, this program knows ${steps.length}`);
  }
  if (done === steps.length) return;
  database.transaction(() => {
    for (const step of steps.slice(done)) database.exec(step);
    database.pragma(`user_version = ${steps.length}`);
  })();
}

function newDatabase(path: string, options: Database.Options | undefined): SqliteDatabase {
  const isFile = path !== '' && path !== ':memory:' && options?.readonly !== true;
  const isMade = isFile && makePrivateFile(path);
  try {
    return new Database(path, options);
  } catch (error) {
    if (isMade) rmSync(path, { force: true });
    const { message, code } = error as NodeJS.ErrnoException;
    // The second is the message of `bindings` if nothing was compiled.
    if (code !== 'ERR_DLOPEN_FAILED' && !message.startsWith('Could not locate the bindings')) {
      throw error;
    }
    const why = message.includes('NODE_MODULE_VERSION')
      ? `was compiled for another Node than this ${process.version}`
      : `cannot be loaded (${message.split('\n')[0]})`;
    throw new SqliteBindingError(
      `the SQLite binding ${why}; compile it with this Node: npm rebuild better-sqlite3, or pnpm -r rebuild better-sqlite3`,
      { cause: error },
    );
  }
}

/** False if the file exists. */
function makePrivateFile(path: string): boolean {
  try {
    closeSync(openSync(path, 'wx', 0o600));
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw error;
  }
}

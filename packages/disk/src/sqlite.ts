import Database from 'better-sqlite3';

/**
 * Opens SQLite databases whose objects are never collected as garbage. From 24.19 on,
 * Node ends the process when an object of better-sqlite3 12 is collected while no script
 * runs, so each database and each statement is held until the process ends. That is
 * little: a process opens few databases, statements are prepared once, and `close` lets
 * go of their memory in SQLite all the same.
 */

export type SqliteDatabase = Database.Database;
export type SqliteStatement<
  Bound extends unknown[] = unknown[],
  Result = unknown,
> = Database.Statement<Bound, Result>;

const held: object[] = [];

/** As `new Database(path, options)`. A pragma of the same text is prepared once. */
export function openDatabase(path: string, options?: Database.Options): SqliteDatabase {
  const database = new Database(path, options);
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
  return database;
}

import { openDatabase, type SqliteDatabase, type SqliteStatement } from '@stevedore/disk/sqlite';
import { codeOf, refusal } from './errors.js';
import { type Dialect, inDialect, type List, type Row, type SqlDriver } from './sql-driver.js';

/** A map's database in one SQLite file, for several processes of one host. */

const BUSY_TIMEOUT_MS = 10_000;

const DIALECT: Dialect = {
  NOW: 'CAST($0 AS INTEGER)',
  BYTES: 'BLOB',
  GREATEST: 'max',
  LEAST: 'min',
  POSITION: 'instr',
};

/** A statement, and the parameter that each of its question marks stands for. */
interface Prepared {
  readonly statement: SqliteStatement;
  readonly parameters: readonly number[];
  readonly readsRows: boolean;
}

export class SqliteDriver implements SqlDriver {
  readonly #database: SqliteDatabase;
  readonly #prepared = new Map<string, Prepared>();

  /** Throws `map_unavailable`. */
  constructor(path: string) {
    this.#database = attempt(() => {
      const database = openDatabase(path, { timeout: BUSY_TIMEOUT_MS });
      database.pragma('journal_mode = WAL');
      database.pragma('synchronous = FULL');
      return database;
    });
  }

  async run(
    statements: string | readonly string[],
    values: readonly unknown[] = [],
    list?: List,
  ): Promise<Row[]> {
    const all = typeof statements === 'string' ? [statements] : statements;
    const run = () => all.map((each) => this.#run(each, values, list)).at(-1) ?? [];
    const isOne = all.length === 1 && !list;
    return attempt(() => (isOne ? run() : this.#database.transaction(run).immediate()));
  }

  async create(statement: string): Promise<void> {
    attempt(() => this.#database.exec(inDialect(statement, DIALECT)));
  }

  async close(): Promise<void> {
    this.#database.close();
  }

  /** A statement with rows is run once for each: that is cheaper here than a list of them. */
  #run(text: string, values: readonly unknown[], list: List | undefined): Row[] {
    const { statement, parameters, readsRows } = this.#prepare(text, values.length, list);
    const bound = [Date.now(), ...values.map(asBound)];
    const found: Row[] = [];
    for (const row of list && readsRows ? list.rows : [[]]) {
      for (const [index, value] of row.entries()) bound[values.length + 1 + index] = value;
      const given = parameters.map((parameter) => bound[parameter]);
      if (!statement.reader) statement.run(given);
      else found.push(...(statement.all(given) as Row[]));
    }
    return found;
  }

  #prepare(text: string, values: number, list: List | undefined): Prepared {
    const known = this.#prepared.get(text);
    if (known) return known;
    const names = Object.keys(list?.columns ?? {});
    const row = names.map((name, index) => `$${values + 1 + index} AS ${name}`);
    const spoken = inDialect(text, DIALECT).replaceAll('ROWS', `(SELECT ${row.join(', ')})`);
    const parameters: number[] = [];
    const marked = spoken.replace(/\$(\d+)/g, (_, parameter) => {
      parameters.push(Number(parameter));
      return '?';
    });
    const statement = this.#database.prepare(marked);
    const prepared = { statement, parameters, readsRows: text.includes('ROWS') };
    this.#prepared.set(text, prepared);
    return prepared;
  }
}

/** SQLite has no booleans. */
function asBound(value: unknown): unknown {
  return typeof value === 'boolean' ? Number(value) : value;
}

function attempt<Result>(action: () => Result): Result {
  try {
    return action();
  } catch (error) {
    throw refusal(error, codeOf(error).startsWith('SQLITE_CONSTRAINT'));
  }
}

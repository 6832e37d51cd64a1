import { openDatabase, type SqliteDatabase, type SqliteStatement } from '@stevedore/disk/sqlite';
import { codeOf, refusal } from './errors.js';
import {
  type Dialect,
  inDialect,
  type List,
  type Row,
  type SqlDriver,
  TOPICS,
  type Topic,
} from './sql-driver.js';

/** A map's database in one SQLite file, for several processes of one host. */

const BUSY_TIMEOUT_MS = 10_000;
/** How often to look whether another process has changed the database. */
const LOOK_INTERVAL_MS = 100;

const DIALECT: Dialect = {
  NOW: 'CAST($0 AS INTEGER)',
  BYTES: 'BLOB',
  GREATEST: 'max',
  LEAST: 'min',
  POSITION: 'instr',
};

/** A statement, and what each of its question marks stands for. */
interface Prepared {
  readonly statement: SqliteStatement;
  /** 0: the time; then the values, and behind them the columns of the list. */
  readonly parameters: readonly number[];
  /** Where columns of the list are bound. */
  readonly ofRow: readonly { readonly at: number; readonly column: number }[];
  readonly readsRows: boolean;
}

export class SqliteDriver implements SqlDriver {
  readonly #database: SqliteDatabase;
  readonly #prepared = new Map<string, Prepared>();
  readonly #listeners: ((topic: Topic) => void)[] = [];
  #looks: NodeJS.Timeout | undefined;

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
    topic?: Topic,
  ): Promise<Row[]> {
    const all = typeof statements === 'string' ? [statements] : statements;
    const run = () => all.map((each) => this.#run(each, values, list)).at(-1) ?? [];
    const isOne = all.length === 1 && !list;
    const rows = attempt(() => (isOne ? run() : this.#database.transaction(run).immediate()));
    if (topic) queueMicrotask(() => this.#tell(topic));
    return rows;
  }

  /** A change by another process may be of any topic. */
  listen(onTold: (topic: Topic) => void): void {
    this.#listeners.push(onTold);
    if (this.#looks) return;
    let version = this.#version();
    this.#looks = setInterval(() => {
      const now = this.#version();
      if (now === version) return;
      version = now;
      for (const topic of TOPICS) this.#tell(topic);
    }, LOOK_INTERVAL_MS).unref();
  }

  get isListening(): boolean {
    return this.#looks !== undefined;
  }

  #version(): unknown {
    return this.#database.pragma('data_version', { simple: true });
  }

  #tell(topic: Topic): void {
    for (const listener of this.#listeners) listener(topic);
  }

  async create(statement: string): Promise<void> {
    attempt(() => this.#database.exec(inDialect(statement, DIALECT)));
  }

  async close(): Promise<void> {
    clearInterval(this.#looks);
    this.#listeners.length = 0;
    this.#database.close();
  }

  /** A statement with rows is run once for each: that is cheaper here than a list of them. */
  #run(text: string, values: readonly unknown[], list: List | undefined): Row[] {
    const { statement, parameters, ofRow, readsRows } = this.#prepare(text, values.length, list);
    const fixed = [
      Date.now(),
      ...values.map((value) => (typeof value === 'boolean' ? Number(value) : value)),
    ];
    // The same array for each row: this loop runs for every file of every trunk.
    const bound = parameters.map((parameter) => fixed[parameter]);
    const found: Row[] = [];
    for (const row of list && readsRows ? list.rows : [[]]) {
      for (const { at, column } of ofRow) bound[at] = row[column];
      if (!statement.reader) statement.run(bound);
      else found.push(...(statement.all(bound) as Row[]));
    }
    return found;
  }

  #prepare(text: string, values: number, list: List | undefined): Prepared {
    const known = this.#prepared.get(text);
    if (known) return known;
    const row = Object.keys(list?.columns ?? {}).flatMap((name, index) =>
      // What is not bound costs nothing.
      new RegExp(`\\b${name}\\b`).test(text) ? `$${values + 1 + index} AS ${name}` : [],
    );
    const spoken = inDialect(text, DIALECT).replaceAll('ROWS', `(SELECT ${row.join(', ')})`);
    const parameters: number[] = [];
    const marked = spoken.replace(/\$(\d+)/g, (_, parameter) => {
      parameters.push(Number(parameter));
      return '?';
    });
    const ofRow = parameters.flatMap((parameter, at) =>
      parameter > values ? { at, column: parameter - values - 1 } : [],
    );
    const statement = this.#database.prepare(marked);
    const prepared = { statement, parameters, ofRow, readsRows: text.includes('ROWS') };
    this.#prepared.set(text, prepared);
    return prepared;
  }
}

function attempt<Result>(action: () => Result): Result {
  try {
    return action();
  } catch (error) {
    throw refusal(error, codeOf(error).startsWith('SQLITE_CONSTRAINT'));
  }
}

import postgres from 'postgres';
import { codeOf, MapError, refusal } from './errors.js';
import { type Dialect, inDialect, type List, type Row, type SqlDriver } from './sql-driver.js';

/**
 * Runs statements at PostgreSQL, or at a database that speaks its protocol; no statement depends on
 * an earlier one of its session, so each may go to another server process of a pooler. Retries a statement
 * that lost to a concurrent one (40001, 40P01). After a timeout, drops all connections and fails
 * with `map_unavailable`. The server may still execute that statement, so every statement must
 * tolerate being executed late, and twice.
 */

export interface PostgresOptions {
  readonly maxConnections: number;
  readonly timeoutMs: number;
}

const DIALECT: Dialect = {
  NOW: '(extract(epoch FROM clock_timestamp()) * 1000)::BIGINT',
  BYTES: 'BYTEA',
  GREATEST: 'greatest',
  LEAST: 'least',
  POSITION: 'strpos',
};

const ATTEMPTS = 5;
const SERIALIZATION_FAILURES: ReadonlySet<string> = new Set(['40001', '40P01']);
const UNIQUE_VIOLATION = '23505';
/** Another gateway ran the same statement at the same moment, so the next attempt finds its effect. */
const CONCURRENT_CREATE_CODES = new Set(['23505', '42P07', '42710', 'XX000', '40001', '40P01']);

/** Array parameters of statements: text[] and bigint[], by their type OIDs. */
const ARRAYS = Object.fromEntries(
  [1009, 1016].map((oid) => [
    `array${oid}`,
    { to: oid, from: [], serialize: arrayText, parse: (text: string) => text },
  ]),
);

/**
 * JSON writes quotes and backslashes as PostgreSQL does, and is several times as fast as code of
 * ours. It escapes control characters too, where PostgreSQL reads a letter.
 */
function arrayText(values: readonly (string | number | null)[]): string {
  const json = JSON.stringify(values).slice(1, -1);
  return `{${/\\[^"\\]/.test(json) ? values.map(quoted).join(',') : json}}`;
}

function quoted(value: string | number | null): string {
  return value === null ? 'null' : `"${String(value).replace(/["\\]/g, '\\$&')}"`;
}

export class PostgresDriver implements SqlDriver {
  readonly #options: PostgresOptions;
  readonly #url: string;
  #connections: Connections | undefined;

  /** Throws for an invalid URL. */
  constructor(url: string, options: PostgresOptions) {
    this.#url = url;
    this.#options = options;
    this.#connections = this.#opened();
  }

  run(
    statements: string | readonly string[],
    values: readonly unknown[] = [],
    list?: List,
  ): Promise<Row[]> {
    const text = typeof statements === 'string' ? statements : together(statements);
    const spoken = inDialect(text, DIALECT);
    if (!list) return this.#run(spoken, values, SERIALIZATION_FAILURES);
    const withRows = spoken.replaceAll('ROWS', rowsOf(list, values.length + 1));
    return this.#run(withRows, [...values, ...columnsOf(list)], SERIALIZATION_FAILURES);
  }

  async create(statement: string): Promise<void> {
    await this.#run(inDialect(statement, DIALECT), [], CONCURRENT_CREATE_CODES);
  }

  async close(): Promise<void> {
    await this.#connections?.end(1);
  }

  async #run(
    statement: string,
    values: readonly unknown[],
    retried: ReadonlySet<string>,
  ): Promise<Row[]> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.#withTimeout(statement, values);
      } catch (error) {
        if (attempt < ATTEMPTS && retried.has(codeOf(error))) continue;
        throw refusal(error, codeOf(error) === UNIQUE_VIOLATION);
      }
    }
  }

  async #withTimeout(statement: string, values: readonly unknown[]): Promise<Row[]> {
    const { timeoutMs } = this.#options;
    this.#connections ??= this.#opened();
    const connections = this.#connections;
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(() => {
        // Its connection may be dead unnoticed; the others lead to the same server.
        this.#leave(connections);
        reject(new MapError('map_unavailable', `the map did not answer within ${timeoutMs} ms`));
      }, timeoutMs);
    });
    const rows = connections
      .checked()
      .then((sql) => sql.unsafe(statement, values as never[], { prepare: true }));
    // Dropped connections reject it when nobody waits for it any more.
    rows.catch(() => {});
    try {
      return await Promise.race([rows, late]);
    } finally {
      clearTimeout(timer);
    }
  }

  #leave(connections: Connections): void {
    if (this.#connections === connections) this.#connections = undefined;
    void connections.end(0).catch(() => {});
  }

  #opened(): Connections {
    let sql = this.#connected({ prepare: true });
    let checked: Promise<postgres.Sql> | undefined;
    const connections = {
      checked: () => {
        if (checked) return checked;
        checked = isPooled(sql).then((pooled) => {
          if (!pooled) return sql;
          void sql.end({ timeout: 0 }).catch(() => {});
          // A pooler may give each statement to a process that knows nothing of the last one, and
          // mixes up those that are sent before the answer to it.
          sql = this.#connected({ prepare: false, max_pipeline: 0 });
          return sql;
        });
        checked.catch(() => this.#leave(connections));
        return checked;
      },
      end: (timeout: number) => sql.end({ timeout }),
    };
    return connections;
  }

  #connected(how: { readonly prepare: boolean; readonly max_pipeline?: number }): postgres.Sql {
    const { maxConnections, timeoutMs } = this.#options;
    const hasSeveralHosts = /^[^/]+\/\/[^/]*,/.test(this.#url);
    return postgres(this.#url, {
      ...how,
      max: maxConnections,
      connect_timeout: Math.ceil(timeoutMs / 1000),
      backoff: false,
      idle_timeout: 60,
      onnotice: () => {},
      // A connection that breaks while the driver fetches types causes an unhandled rejection.
      fetch_types: false,
      types: ARRAYS,
      ...(hasSeveralHosts ? { target_session_attrs: 'read-write' as const } : {}),
    });
  }
}

/** The connections to one server. */
interface Connections {
  /** Resolves once it is known how to use them. */
  checked(): Promise<postgres.Sql>;
  end(timeoutSeconds: number): Promise<void>;
}

/** True if the process that answers is not the one that the connection was opened to. */
async function isPooled(sql: postgres.Sql): Promise<boolean> {
  const asked = sql.unsafe('SELECT pg_backend_pid() AS pid');
  const [row] = await asked;
  const { state } = asked as { readonly state?: { readonly pid?: number } };
  return row?.pid !== state?.pid;
}

/** All in one statement, each of which sees the tables as they were before it. */
function together(statements: readonly string[]): string {
  const before = statements.slice(0, -1).map((each, index) => `part${index} AS (${each})`);
  return `WITH ${before.join(', ')} ${statements.at(-1)}`;
}

/** An array for each column, because a server reads those much faster than rows. */
function rowsOf({ columns }: List, first: number): string {
  const parts = Object.entries(columns).map(([name, type], index) => ({
    name,
    array: `$${first + index}::${type === 'integer' ? 'BIGINT' : 'TEXT'}[]`,
    value: type === 'bytes' ? `decode(${name}, 'hex') AS ${name}` : name,
  }));
  const listed = (part: 'name' | 'array' | 'value'): string =>
    parts.map((each) => each[part]).join(', ');
  return `(SELECT ${listed('value')} FROM unnest(${listed('array')}) AS u(${listed('name')}))`;
}

function columnsOf({ columns, rows }: List): unknown[] {
  return Object.values(columns).map((type, index) =>
    rows.map((row) => {
      const value = row[index] ?? null;
      return type === 'bytes' && ArrayBuffer.isView(value) ? hex(value) : value;
    }),
  );
}

function hex({ buffer, byteOffset, byteLength }: ArrayBufferView): string {
  return Buffer.from(buffer, byteOffset, byteLength).toString('hex');
}

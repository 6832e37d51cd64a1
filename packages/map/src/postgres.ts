import { randomUUID } from 'node:crypto';
import postgres from 'postgres';
import { codeOf, MapError, refusal } from './errors.js';
import {
  type Dialect,
  inDialect,
  type List,
  type Row,
  type SqlDriver,
  TOPICS,
  type Topic,
} from './sql-driver.js';

/**
 * Runs statements at PostgreSQL, or at a database that speaks its protocol; no statement depends on
 * an earlier one of its session, so each may go to another server process of a pooler. Retries a statement
 * that lost to a concurrent one (40001, 40P01). Of several hosts, it uses the first that accepts
 * writes, and looks again whenever a server fails, refuses to write or does not answer in time; that
 * statement fails with `map_unavailable`. The server may still execute it, so every statement must
 * tolerate being executed late, and twice.
 *
 * It listens on a connection of its own, except through a pooler, and notifies itself now and then:
 * while that arrives, so does what others tell.
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
const READ_ONLY = '25006';
/** Of databases that speak the protocol and have no notifications. */
const NO_NOTIFICATIONS = new Set(['0A000', '42883', '42601']);
const CHANNEL = 'stevedore';
const ECHO_INTERVAL_MS = 10_000;
const ECHO_TIMEOUT_MS = 5_000;
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
  /** One for each host. */
  readonly #urls: readonly string[];
  #connections: Promise<postgres.Sql> | undefined;
  #opened: Promise<Connected> | undefined;
  readonly #listeners: ((topic: Topic) => void)[] = [];
  #echoes: NodeJS.Timeout | undefined;
  #canTell = true;
  isListening = false;

  /** Throws for an invalid URL. */
  constructor(url: string, options: PostgresOptions) {
    this.#urls = urlsOf(url);
    this.#options = options;
    // Connects at the first statement.
    for (const each of this.#urls) void this.#to(each, {});
  }

  async run(
    statements: string | readonly string[],
    values: readonly unknown[] = [],
    list?: List,
    topic?: Topic,
  ): Promise<Row[]> {
    const all = typeof statements === 'string' ? [statements] : statements;
    const run = (text: string): Promise<Row[]> => {
      const spoken = inDialect(text, DIALECT);
      if (!list) return this.#run(spoken, values, SERIALIZATION_FAILURES);
      const withRows = spoken.replaceAll('ROWS', rowsOf(list, values.length + 1));
      return this.#run(withRows, [...values, ...columnsOf(list)], SERIALIZATION_FAILURES);
    };
    if (!topic || !this.#canTell) return run(together(all));
    try {
      return await run(telling(all, topic));
    } catch (error) {
      if (!NO_NOTIFICATIONS.has(codeOf((error as Error).cause))) throw error;
      this.#canTell = false;
      return run(together(all));
    }
  }

  listen(onTold: (topic: Topic) => void): void {
    this.#listeners.push(onTold);
    if (this.#listeners.length === 1) this.#beginListening();
  }

  async create(statement: string): Promise<void> {
    await this.#run(inDialect(statement, DIALECT), [], CONCURRENT_CREATE_CODES);
  }

  async close(): Promise<void> {
    this.#listeners.length = 0;
    clearInterval(this.#echoes);
    const sql = await this.#connections?.catch(() => undefined);
    await sql?.end({ timeout: 1 });
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
    this.#connections ??= this.#begun();
    const connections = this.#connections;
    const rows = connections.then((sql) =>
      sql.unsafe(statement, values as never[], { prepare: true }),
    );
    try {
      return await within(timeoutMs, rows);
    } catch (error) {
      // A connection that does not answer may be dead unnoticed; the others lead to the same server.
      if (isOfServer(error)) this.#leave(connections);
      throw error;
    }
  }

  /** Drops all connections: the next statement looks for a server. */
  #leave(connections: Promise<postgres.Sql>): void {
    if (this.#connections !== connections) return;
    this.#connections = undefined;
    this.#opened = undefined;
    this.isListening = false;
    clearInterval(this.#echoes);
    void connections.then((sql) => sql.end({ timeout: 0 })).catch(() => undefined);
  }

  #begun(): Promise<postgres.Sql> {
    const connected = this.#connected();
    this.#opened = connected;
    if (this.#listeners.length > 0) this.#beginListening();
    return connected.then(({ sql }) => sql);
  }

  /** Unless that fails, in which case what others change has to be looked for. */
  #beginListening(): void {
    const begin = async ({ sql, isPooled }: Connected): Promise<void> => {
      if (!isPooled) await this.#listenAt(sql);
    };
    this.#opened?.then(begin).catch(() => undefined);
  }

  async #listenAt(sql: postgres.Sql): Promise<void> {
    let onEcho = (_: string): void => undefined;
    const tell = (topic: Topic): void => {
      for (const listener of this.#listeners) listener(topic);
    };
    const onText = (text: string): void => {
      const topic = TOPICS.find((each) => each === text);
      if (topic) tell(topic);
      else onEcho(text);
    };
    // The library listens again after its connection broke: what was sent meanwhile is lost.
    await sql.listen(CHANNEL, onText, () => TOPICS.forEach(tell));
    const connections = this.#connections;
    let missed = 0;
    const test = async (): Promise<void> => {
      const sent = randomUUID();
      const echo = new Promise<boolean>((resolve) => {
        onEcho = (text) => {
          if (text === sent) resolve(true);
        };
        setTimeout(() => resolve(false), ECHO_TIMEOUT_MS).unref();
      });
      await this.run('SELECT pg_notify($1, $2)', [CHANNEL, sent]);
      const isHeard = await echo;
      if (this.#connections !== connections) return;
      this.isListening = isHeard;
      missed = isHeard ? 0 : missed + 1;
      // The connection is dead, and nobody says so.
      if (missed > 1 && connections) this.#leave(connections);
    };
    clearInterval(this.#echoes);
    this.#echoes = setInterval(() => void test().catch(() => undefined), ECHO_INTERVAL_MS).unref();
    await test();
  }

  /** Connections to the first host that accepts writes. */
  async #connected(): Promise<Connected> {
    let failure: unknown;
    for (const url of this.#urls) {
      const sql = this.#to(url, {});
      try {
        const isPooled = await this.#checked(sql);
        if (!isPooled) return { sql, isPooled };
        void sql.end({ timeout: 0 }).catch(() => undefined);
        // A pooler may give each statement to a process that knows nothing of the last one, and
        // mixes up those that are sent before the answer to it.
        return { sql: this.#to(url, { prepare: false, max_pipeline: 0 }), isPooled };
      } catch (error) {
        failure = error;
        void sql.end({ timeout: 0 }).catch(() => undefined);
      }
    }
    throw failure;
  }

  /** True if the process that answers is not the one that the connection was opened to. */
  async #checked(sql: postgres.Sql): Promise<boolean> {
    // Whichever host is tried last, its answer leaves time for the statement.
    const limitMs = this.#options.timeoutMs / (this.#urls.length + 1);
    const asked = sql.unsafe(
      "SELECT pg_backend_pid() AS pid, current_setting('transaction_read_only') AS read_only",
    );
    const [row] = await within(limitMs, asked);
    if (row?.read_only === 'on') {
      throw new MapError(
        'map_unavailable',
        'the server of the map accepts no writes: is it a standby?',
      );
    }
    const { state } = asked as { readonly state?: { readonly pid?: number } };
    return row?.pid !== state?.pid;
  }

  #to(url: string, how: { readonly prepare?: false; readonly max_pipeline?: number }) {
    const { maxConnections, timeoutMs } = this.#options;
    return postgres(url, {
      prepare: true,
      ...how,
      max: maxConnections,
      connect_timeout: Math.ceil(timeoutMs / 1000),
      backoff: false,
      idle_timeout: 60,
      onnotice: () => {},
      // A connection that breaks while the driver fetches types causes an unhandled rejection.
      fetch_types: false,
      types: ARRAYS,
    });
  }
}

async function within<Result>(limitMs: number, answer: PromiseLike<Result>): Promise<Result> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    const message = `the map did not answer within ${Math.round(limitMs)} ms`;
    timer = setTimeout(() => reject(new MapError('map_unavailable', message)), limitMs);
  });
  try {
    // Once it is late, dropped connections reject it when nobody waits for it any more.
    return await Promise.race([answer, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** True if the answer says that another host, or a new connection, may do better. */
function isOfServer(error: unknown): boolean {
  const code = codeOf(error);
  // SQL's have five characters; the library's own, and those of sockets, are longer.
  return code.length !== 5 || code === READ_ONLY || /^(08|57P)/.test(code);
}

/** `postgres://user@one,two:5433/map` is one URL for each host. */
function urlsOf(url: string): readonly string[] {
  const [, before = '', hosts = '', rest = ''] =
    /^(\w+:\/\/(?:[^@/]*@)?)([^/?]*)(.*)$/.exec(url) ?? [];
  return hosts.split(',').map((host) => `${before}${host}${rest}`);
}

interface Connected {
  readonly sql: postgres.Sql;
  readonly isPooled: boolean;
}

/** All in one statement, each of which sees the tables as they were before it. */
function together(statements: readonly string[]): string {
  const before = statements.slice(0, -1).map((each, index) => `part${index} AS (${each})`);
  const [last = ''] = statements.slice(-1);
  return before.length === 0 ? last : `WITH ${before.join(', ')} ${last}`;
}

/** As `together`, and notifies with the commit. */
function telling(statements: readonly string[], topic: Topic): string {
  const tell = `pg_notify('${CHANNEL}', '${topic}')`;
  const returns = statements.at(-1)?.includes('RETURNING');
  const parts = statements.map((each, index) => `part${index} AS (${each})`);
  const last = returns ? `SELECT *, ${tell} FROM part${parts.length - 1}` : `SELECT ${tell}`;
  return `WITH ${parts.join(', ')} ${last}`;
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

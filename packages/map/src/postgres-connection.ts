import postgres from 'postgres';
import { MapError } from './errors.js';

/**
 * Runs statements at PostgreSQL, or at a database that speaks its protocol; no statement depends on
 * an earlier one of its session, so each may go to another server process of a pooler. Retries a statement
 * that lost to a concurrent one (40001, 40P01). After a timeout, drops all connections and fails
 * with `map_unavailable`. The server may still execute that statement, so every statement must
 * tolerate being executed late, and twice.
 */

export interface PostgresMapOptions {
  readonly maxConnections: number;
  readonly timeoutMs: number;
  /** New tables store the random half of a key first. */
  readonly spread: boolean;
}

const ATTEMPTS = 5;
const SERIALIZATION_FAILURES: ReadonlySet<string> = new Set(['40001', '40P01']);
const UNIQUE_VIOLATION = '23505';

/** Array parameters of statements: text[], bigint[] and integer[], by their type OIDs. */
const ARRAYS = Object.fromEntries(
  [1009, 1016, 1007].map((oid) => [
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

export class PostgresConnection {
  protected readonly options: PostgresMapOptions;
  readonly #url: string;
  #connections: Connections | undefined;

  /** Throws for an invalid URL. */
  constructor(url: string, options: PostgresMapOptions) {
    this.#url = url;
    this.options = options;
    this.#connections = this.#opened();
  }

  async close(): Promise<void> {
    await this.#connections?.end(1);
  }

  protected async run(
    statement: string,
    values: readonly unknown[],
    retried = SERIALIZATION_FAILURES,
  ): Promise<postgres.Row[]> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.#withTimeout(statement, values);
      } catch (error) {
        if (attempt < ATTEMPTS && retried.has(codeOf(error))) continue;
        throw asMapError(error);
      }
    }
  }

  async #withTimeout(statement: string, values: readonly unknown[]): Promise<postgres.Row[]> {
    const { timeoutMs } = this.options;
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
    const { maxConnections, timeoutMs } = this.options;
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

export function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('hex');
}

function codeOf(error: unknown): string {
  return String((error as { code?: unknown } | undefined)?.code ?? '');
}

function asMapError(error: unknown): MapError {
  if (error instanceof MapError) return error;
  const { message } = error as Error;
  const code = codeOf(error) === UNIQUE_VIOLATION ? 'origin_taken' : 'map_unavailable';
  return new MapError(code, `the map does not answer, or refuses: ${message}`, error);
}

import postgres from 'postgres';
import { MapError } from './errors.js';

/**
 * Runs statements at PostgreSQL, or at a database that speaks its protocol. Retries a statement
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
  #sql: postgres.Sql;

  constructor(url: string, options: PostgresMapOptions) {
    this.#url = url;
    this.options = options;
    this.#sql = this.#connected();
  }

  async close(): Promise<void> {
    await this.#sql.end({ timeout: 1 });
  }

  protected async run(
    statement: string,
    values: readonly unknown[],
    retried = SERIALIZATION_FAILURES,
  ): Promise<postgres.Row[]> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.#withTimeout(this.#sql, statement, values);
      } catch (error) {
        if (attempt < ATTEMPTS && retried.has(codeOf(error))) continue;
        throw asMapError(error);
      }
    }
  }

  async #withTimeout(
    sql: postgres.Sql,
    statement: string,
    values: readonly unknown[],
  ): Promise<postgres.Row[]> {
    const { timeoutMs } = this.options;
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(() => {
        // Its connection may be dead unnoticed; the others lead to the same server.
        if (this.#sql === sql) this.#sql = this.#connected();
        void sql.end({ timeout: 0 }).catch(() => {});
        reject(new MapError('map_unavailable', `the map did not answer within ${timeoutMs} ms`));
      }, timeoutMs);
    });
    const rows = sql.unsafe(statement, values as never[], { prepare: true });
    // Dropped connections reject it when nobody waits for it any more.
    rows.catch(() => {});
    try {
      return await Promise.race([rows, late]);
    } finally {
      clearTimeout(timer);
    }
  }

  #connected(): postgres.Sql {
    const { maxConnections, timeoutMs } = this.options;
    const hasSeveralHosts = /^[^/]+\/\/[^/]*,/.test(this.#url);
    return postgres(this.#url, {
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

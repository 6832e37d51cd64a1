import postgres from 'postgres';
import { MapError } from './errors.js';

/**
 * Statements for PostgreSQL, or a database that speaks its protocol. A statement that lost a
 * conflict (40001, 40P01) is retried. One without an answer in time fails with `map_unavailable`,
 * and its connections are closed. The server may still execute it later, so any statement can
 * arrive late, and twice.
 */

export interface PostgresMapOptions {
  readonly maxConnections: number;
  readonly timeoutMs: number;
  /** Whether keys begin with their random half; decided when the tables are created. */
  readonly spread: boolean;
}

export const ATTEMPTS = 5;
const LOST_TO_ANOTHER = new Set(['40001', '40P01']);
const UNIQUE_VIOLATION = '23505';

/** Array types of parameters, text[], bigint[] and integer[], by their OIDs in PostgreSQL. */
const ARRAYS = Object.fromEntries(
  [1009, 1016, 1007].map((oid) => [
    `array${oid}`,
    { to: oid, from: [], serialize: arrayText, parse: (text: string) => text },
  ]),
);

function arrayText(values: readonly (string | number | null)[]): string {
  const quoted = values.map((value) =>
    value === null ? 'null' : `"${String(value).replace(/["\\]/g, '\\$&')}"`,
  );
  return `{${quoted.join(',')}}`;
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

  protected async run(statement: string, values: readonly unknown[]): Promise<postgres.Row[]> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.#inTime(this.#sql, statement, values);
      } catch (error) {
        if (attempt < ATTEMPTS && LOST_TO_ANOTHER.has(codeOf(error))) continue;
        throw asMapError(error);
      }
    }
  }

  async #inTime(
    sql: postgres.Sql,
    statement: string,
    values: readonly unknown[],
  ): Promise<postgres.Row[]> {
    const { timeoutMs } = this.options;
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(() => {
        // Its connection may be dead without a sign; the others lead to the same server.
        if (this.#sql === sql) this.#sql = this.#connected();
        void sql.end({ timeout: 0 }).catch(() => {});
        reject(new MapError('map_unavailable', `the map did not answer within ${timeoutMs} ms`));
      }, timeoutMs);
    });
    const rows = sql.unsafe(statement, values as never[], { prepare: true });
    // The closed connections reject it, and no caller waits for it any more.
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
      // If a connection breaks while the driver asks for types, that promise rejects without a
      // handler.
      fetch_types: false,
      types: ARRAYS,
      ...(hasSeveralHosts ? { target_session_attrs: 'read-write' as const } : {}),
    });
  }
}

export function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('hex');
}

export function codeOf(error: unknown): string {
  return String((error as { code?: unknown } | undefined)?.code ?? '');
}

function asMapError(error: unknown): MapError {
  if (error instanceof MapError) return error;
  const { message } = error as Error;
  const code = codeOf(error) === UNIQUE_VIOLATION ? 'origin_taken' : 'map_unavailable';
  return new MapError(code, `the map does not answer, or refuses: ${message}`, error);
}

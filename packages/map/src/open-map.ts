import { MapError } from './errors.js';
import type { SqlDriver } from './sql-driver.js';
import { type DeploymentMap, SqlMap } from './sql-map.js';

/** Options of a map that are not in its URL. */
export interface MapOptions {
  /** Maximum connections to PostgreSQL. */
  readonly maxConnections?: number;
  /** Timeout of one statement. */
  readonly timeoutMs?: number;
}

/**
 * The map at a URL: `postgres://user@host,host2/database`, or `sqlite:/path` for several processes
 * of one host. `?spread=true` spreads keys over the ranges of a database that scales out; it is
 * decided when the tables are created. PostgreSQL is connected at the first call. Rejects with
 * `map_url`, and with `map_unavailable` if a SQLite file cannot be opened.
 */
export async function openMap(url: string, options: MapOptions = {}): Promise<DeploymentMap> {
  const { driver, spreads } = await openDriver(url, options);
  return new SqlMap(driver, spreads);
}

/** For several maps, in other processes too, that share the connections of one. */
export interface OpenDriver {
  readonly driver: SqlDriver;
  /** For `SqlMap`. */
  readonly spreads: boolean;
}

/** Rejects as `openMap`. */
export async function openDriver(url: string, options: MapOptions = {}): Promise<OpenDriver> {
  const { maxConnections = 4, timeoutMs = 10_000 } = options;
  const scheme = /^([a-z]+):/.exec(url)?.[1];
  if (scheme === 'postgres' || scheme === 'postgresql') {
    const [rest, spread] = withoutSpread(url);
    const { PostgresDriver } = await import('./postgres.js').catch((error: unknown) => {
      const { code, message } = error as NodeJS.ErrnoException;
      if (code !== 'ERR_MODULE_NOT_FOUND' || !message.includes("'postgres'")) throw error;
      throw badUrl(url, 'it needs the package "postgres"; run npm install postgres');
    });
    try {
      const driver = new PostgresDriver(rest, { maxConnections, timeoutMs });
      return { driver, spreads: spread };
    } catch (error) {
      throw badUrl(url, (error as Error).message);
    }
  }
  const path = /^sqlite:(.+)$/.exec(url)?.[1];
  if (path === undefined) throw badUrl(url, 'it begins with neither "postgres:" nor "sqlite:"');
  const { SqliteDriver } = await import('./sqlite.js');
  return { driver: new SqliteDriver(path), spreads: false };
}

function withoutSpread(url: string): [string, boolean] {
  const [base = '', query = ''] = url.split('?', 2);
  const parameters = new URLSearchParams(query);
  const spread = parameters.get('spread');
  if (spread !== null && spread !== 'true' && spread !== 'false') {
    throw badUrl(url, '"spread" is true or false');
  }
  parameters.delete('spread');
  const rest = parameters.toString();
  return [rest === '' ? base : `${base}?${rest}`, spread === 'true'];
}

/** A URL can contain a password, so that part is not shown. */
function badUrl(url: string, why: string): MapError {
  const shown = url.replace(/\/\/[^@/]*@/, '//…@');
  return new MapError('map_url', `"${shown}" is not a map: ${why}`);
}

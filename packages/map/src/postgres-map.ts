import { randomBytes, randomInt } from 'node:crypto';
import postgres from 'postgres';
import { checkOrigin, inUse, MapError, originTaken } from './errors.js';
import {
  type DeploymentMap,
  type Gateway,
  IN_USE_MS,
  type Joined,
  type Joining,
  type MappedFile,
  originOf,
  type PlacedFile,
  type Removal,
  type RemovedFile,
  type Trunk,
} from './map.js';
import { MAX_ORIGIN, STEPS, VERSION_TABLE } from './schema.js';
import { StoredKeys } from './stored-key.js';

/**
 * A map in PostgreSQL, or in a database that speaks its protocol and scales out: one statement
 * for any number of files, no advisory locks, no sequences. A statement that lost to another
 * one (40001, 40P01) is tried again; one that is not answered in time is given up, together
 * with the connections, and `map_unavailable`.
 */

export interface PostgresMapOptions {
  readonly maxConnections: number;
  readonly timeoutMs: number;
  /** Random half of a key first, where the tables are made. */
  readonly spread: boolean;
}

const ATTEMPTS = 5;
const LOST_TO_ANOTHER = new Set(['40001', '40P01']);
/** Two gateways made the same table at the same moment. */
const MADE_TWICE = new Set(['23505', '42P07', '42710']);
const UNIQUE_VIOLATION = '23505';
const NOW = '(extract(epoch FROM clock_timestamp()) * 1000)::BIGINT';

export class PostgresMap implements DeploymentMap {
  readonly #url: string;
  readonly #options: PostgresMapOptions;
  #sql: postgres.Sql;
  #keys = new StoredKeys(false);

  constructor(url: string, options: PostgresMapOptions) {
    this.#url = url;
    this.#options = options;
    this.#sql = this.#connected();
  }

  async join(gateway: Joining): Promise<Joined> {
    const { secret, spread } = await this.#prepared();
    this.#keys = new StoredKeys(spread);
    const { instance, place } = gateway;
    const url = gateway.url ?? null;
    const [known] = await this.#run(
      'SELECT origin, place, seen_at FROM stevedore_gateway WHERE instance = $1',
      [instance],
    );
    if (!known) return { origin: await this.#entered(gateway), secret };
    const origin = known.origin as number;
    checkOrigin(gateway, origin);
    const [entered] = await this.#run(
      `UPDATE stevedore_gateway SET url = $2, place = $3, seen_at = ${NOW}
        WHERE instance = $1 AND (place = $3 OR seen_at < ${NOW} - ${IN_USE_MS}) RETURNING origin`,
      [instance, url, place],
    );
    if (!entered) throw inUse(known.place as string);
    return { origin, secret };
  }

  async #entered({ instance, origin, url, place }: Joining): Promise<number> {
    for (let attempt = 0; attempt < MAX_ORIGIN; attempt++) {
      const wanted = origin ?? randomInt(1, MAX_ORIGIN + 1);
      const rows = await this.#run(
        `INSERT INTO stevedore_gateway (origin, instance, url, place, seen_at)
          VALUES ($1, $2, $3, $4, ${NOW}) ON CONFLICT (origin) DO NOTHING RETURNING origin`,
        [wanted, instance, url ?? null, place],
      );
      if (rows.length > 0) return wanted;
      if (origin !== undefined) throw originTaken(origin);
    }
    throw new MapError('origin_taken', 'every origin is taken');
  }

  async seen(origin: number, place: string): Promise<boolean> {
    const rows = await this.#run(
      `UPDATE stevedore_gateway SET seen_at = ${NOW} WHERE origin = $1 AND place = $2
        RETURNING origin`,
      [origin, place],
    );
    return rows.length > 0;
  }

  async leave(origin: number, place: string): Promise<void> {
    await this.#run('UPDATE stevedore_gateway SET seen_at = 0 WHERE origin = $1 AND place = $2', [
      origin,
      place,
    ]);
  }

  async gateways(): Promise<Gateway[]> {
    const rows = await this.#run(
      'SELECT origin, url, seen_at FROM stevedore_gateway ORDER BY origin',
      [],
    );
    return rows.map((row) => ({
      origin: row.origin as number,
      url: row.url as string | null,
      seenAt: Number(row.seen_at),
    }));
  }

  async place({ id, fileId }: Trunk, files: readonly PlacedFile[]): Promise<void> {
    await this.#run(
      `WITH files AS (
        SELECT decode(k, 'hex') AS file_key, p, s, c, a, e FROM unnest(
          $3::TEXT[], $4::BIGINT[], $5::BIGINT[], $6::BIGINT[], $7::TEXT[], $8::BIGINT[]
        ) AS f(k, p, s, c, a, e)
      ), trunk AS (
        INSERT INTO stevedore_trunk (trunk, file_id) VALUES (decode($1, 'hex'), $2)
          ON CONFLICT (trunk) DO UPDATE SET file_id = excluded.file_id
      ), removed AS (
        UPDATE stevedore_removal SET trunk = decode($1, 'hex') FROM files
          WHERE stevedore_removal.file_key = files.file_key
      )
      INSERT INTO stevedore_file (file_key, trunk, position, size, crc32, about, expires_at)
        SELECT file_key, decode($1, 'hex'), p, s, c, a, e FROM files
        WHERE NOT EXISTS (SELECT 1 FROM stevedore_removal r WHERE r.file_key = files.file_key)
        ON CONFLICT (file_key) DO UPDATE SET trunk = excluded.trunk, position = excluded.position`,
      [
        hex(id),
        fileId,
        files.map(({ key }) => this.#keys.hex(key)),
        files.map(({ offset }) => offset),
        files.map(({ size }) => size),
        files.map(({ crc32 }) => crc32),
        files.map(({ about }) => about),
        files.map(({ expiresAt }) => expiresAt),
      ],
    );
  }

  async retire(trunk: Uint8Array): Promise<void> {
    await this.#run("DELETE FROM stevedore_trunk WHERE trunk = decode($1, 'hex')", [hex(trunk)]);
  }

  async remove(files: readonly RemovedFile[], isSettled: boolean): Promise<void> {
    await this.#run(
      `WITH files AS (
        SELECT decode(k, 'hex') AS file_key, o, decode(t, 'hex') AS trunk
          FROM unnest($1::TEXT[], $2::BIGINT[], $3::TEXT[]) AS f(k, o, t)
      ), gone AS (
        DELETE FROM stevedore_file WHERE file_key IN (SELECT file_key FROM files)
      )
      INSERT INTO stevedore_removal (file_key, origin, trunk, removed_at, settled)
        SELECT DISTINCT ON (f.file_key) f.file_key, o, coalesce(f.trunk, m.trunk), ${NOW}, $4::BOOLEAN
          FROM files f LEFT JOIN stevedore_file m ON m.file_key = f.file_key
        ON CONFLICT (file_key) DO UPDATE SET
          settled = stevedore_removal.settled OR excluded.settled,
          trunk = coalesce(excluded.trunk, stevedore_removal.trunk)`,
      [
        files.map(({ key }) => this.#keys.hex(key)),
        files.map(({ key }) => originOf(key)),
        files.map(({ trunk }) => (trunk ? hex(trunk) : null)),
        isSettled,
      ],
    );
  }

  async find(keys: readonly Uint8Array[]): Promise<(MappedFile | 'removed' | undefined)[]> {
    const wanted = keys.map((key) => this.#keys.hex(key));
    const rows = await this.#run(
      `SELECT encode(f.file_key, 'hex') AS k, f.position, f.size, f.crc32, f.about, f.expires_at,
          t.file_id, FALSE AS removed
        FROM stevedore_file f JOIN stevedore_trunk t ON t.trunk = f.trunk
        WHERE f.file_key IN (SELECT decode(k, 'hex') FROM unnest($1::TEXT[]) AS g(k))
      UNION ALL
      SELECT encode(r.file_key, 'hex'), 0, 0, 0, '', NULL, '', TRUE FROM stevedore_removal r
        WHERE r.file_key IN (SELECT decode(k, 'hex') FROM unnest($1::TEXT[]) AS g(k))`,
      [wanted],
    );
    const found = new Map<string, MappedFile | 'removed'>();
    for (const row of rows) {
      const key = row.k as string;
      if (row.removed === true) found.set(key, 'removed');
      else if (!found.has(key)) found.set(key, mapped(row));
    }
    return wanted.map((key) => found.get(key));
  }

  async removalsAfter({ removedAt, key }: Removal, limit: number): Promise<Removal[]> {
    const rows = await this.#run(
      `SELECT encode(file_key, 'hex') AS k, removed_at FROM stevedore_removal
        WHERE (removed_at, file_key) > ($1, decode($2, 'hex'))
        ORDER BY removed_at, file_key LIMIT $3`,
      [removedAt, this.#keys.hex(key), limit],
    );
    return rows.map((row) => ({ key: this.#keyOf(row), removedAt: Number(row.removed_at) }));
  }

  async removalsFor(origin: number, limit: number): Promise<Uint8Array[]> {
    const rows = await this.#run(
      `SELECT encode(file_key, 'hex') AS k FROM stevedore_removal
        WHERE origin = $1 AND NOT settled LIMIT $2`,
      [origin, limit],
    );
    return rows.map((row) => this.#keyOf(row));
  }

  async prune(before: number): Promise<void> {
    // A file that was placed at the same moment as it was removed goes with its removal.
    await this.#run(
      `WITH pruned AS (
        DELETE FROM stevedore_removal WHERE settled AND removed_at < $1 AND NOT EXISTS (
          SELECT 1 FROM stevedore_trunk t WHERE t.trunk = stevedore_removal.trunk
        ) RETURNING file_key
      )
      DELETE FROM stevedore_file WHERE file_key IN (SELECT file_key FROM pruned)`,
      [before],
    );
  }

  async now(): Promise<number> {
    const [row] = await this.#run(`SELECT ${NOW} AS now`, []);
    return Number(row!.now);
  }

  async close(): Promise<void> {
    await this.#sql.end({ timeout: 1 });
  }

  #keyOf(row: postgres.Row): Buffer {
    return this.#keys.key(Buffer.from(row.k as string, 'hex'));
  }

  /** Makes what is missing of the schema. */
  async #prepared(): Promise<{ secret: string; spread: boolean }> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.#prepare();
      } catch (error) {
        const { cause } = error as MapError;
        if (attempt === ATTEMPTS || !MADE_TWICE.has(codeOf(cause))) throw error;
      }
    }
  }

  async #prepare(): Promise<{ secret: string; spread: boolean }> {
    await this.#run(VERSION_TABLE, []);
    await this.#run(
      `INSERT INTO stevedore_map (only_one, version, secret, spread) VALUES (1, 0, $1, $2)
        ON CONFLICT (only_one) DO NOTHING`,
      [randomBytes(32).toString('hex'), this.#options.spread],
    );
    const [row] = await this.#run('SELECT version, secret, spread FROM stevedore_map', []);
    const version = row!.version as number;
    if (version > STEPS.length) {
      throw new MapError(
        'map_schema',
        `the map's schema is version ${version}, this program knows ${STEPS.length}: use a later one`,
      );
    }
    for (const step of STEPS.slice(version)) {
      for (const statement of step) await this.#run(statement.replaceAll('BYTES', 'BYTEA'), []);
    }
    if (version < STEPS.length) {
      await this.#run('UPDATE stevedore_map SET version = $1 WHERE version < $1', [STEPS.length]);
    }
    return { secret: row!.secret as string, spread: row!.spread as boolean };
  }

  async #run(statement: string, values: readonly unknown[]): Promise<postgres.Row[]> {
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
    const { timeoutMs } = this.#options;
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(() => {
        // Its connection may be dead without a sign; the others were made to the same server.
        if (this.#sql === sql) this.#sql = this.#connected();
        void sql.end({ timeout: 0 }).catch(() => {});
        reject(new MapError('map_unavailable', `the map did not answer within ${timeoutMs} ms`));
      }, timeoutMs);
    });
    const rows = sql.unsafe(statement, values as never[], { prepare: true });
    // The connections that are given up reject it, and nobody waits any more.
    rows.catch(() => {});
    try {
      return await Promise.race([rows, late]);
    } finally {
      clearTimeout(timer);
    }
  }

  #connected(): postgres.Sql {
    const { maxConnections, timeoutMs } = this.#options;
    const hasSeveralHosts = /^[^/]+\/\/[^/]*,/.test(this.#url);
    return postgres(this.#url, {
      max: maxConnections,
      connect_timeout: Math.ceil(timeoutMs / 1000),
      backoff: false,
      idle_timeout: 60,
      onnotice: () => {},
      ...(hasSeveralHosts ? { target_session_attrs: 'read-write' as const } : {}),
    });
  }
}

function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('hex');
}

function mapped(row: postgres.Row): MappedFile {
  const expiresAt = row.expires_at as string | null;
  return {
    trunkFileId: row.file_id as string,
    offset: Number(row.position),
    size: Number(row.size),
    crc32: Number(row.crc32),
    about: row.about as string,
    expiresAt: expiresAt === null ? null : Number(expiresAt),
  };
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

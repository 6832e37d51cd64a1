import { randomBytes, randomInt } from 'node:crypto';
import type postgres from 'postgres';
import {
  adoptionObstacle,
  adoptionRefused,
  checkOrigin,
  inUse,
  MapError,
  originAdopted,
  originTaken,
} from './errors.js';
import {
  type Adoption,
  type Claim,
  type Gateway,
  IN_USE_MS,
  type Joined,
  type Joining,
  type StagedFiles,
  type UsageAsk,
  type UsageGrant,
} from './map.js';
import { hex, PostgresConnection } from './postgres-connection.js';
import { MAX_ORIGIN, STEPS, StoredKeys, VERSION_TABLE } from './schema.js';

/** The schema of a map in PostgreSQL, its gateways, claims and usage counts. */

/** Another gateway ran the same statement at the same moment, so the next attempt finds its effect. */
const CONCURRENT_CREATE_CODES = new Set(['23505', '42P07', '42710', 'XX000', '40001', '40P01']);
export const NOW = '(extract(epoch FROM clock_timestamp()) * 1000)::BIGINT';
const COLUMNS = `origin, url, place, seen_at, staged_files, staged_bytes, holder, adopter, adopted_at,
  adopt_trunks, adopted_trunks, adopt_trouble`;

export class PostgresGateways extends PostgresConnection {
  protected keys = new StoredKeys(false);

  async prepare(): Promise<void> {
    await this.#prepared();
  }

  async join(gateway: Joining): Promise<Joined> {
    const secret = await this.#prepared();
    const { instance, place } = gateway;
    const url = gateway.url ?? null;
    const [known] = await this.run(
      'SELECT origin, place, adopter FROM stevedore_gateway WHERE instance = $1',
      [instance],
    );
    if (!known) return { origin: await this.#entered(gateway), secret };
    const origin = known.origin as number;
    checkOrigin(gateway, origin);
    if (known.adopter !== null) throw originAdopted(origin, known.adopter as number);
    const [entered] = await this.run(
      `UPDATE stevedore_gateway SET url = $2, place = $3, seen_at = ${NOW}
        WHERE instance = $1 AND adopter IS NULL
          AND (place IN ($3, '') OR seen_at < ${NOW} - ${IN_USE_MS}) RETURNING origin`,
      [instance, url, place],
    );
    if (!entered) throw inUse(known.place as string);
    return { origin, secret };
  }

  async #entered({ instance, origin, url, place }: Joining): Promise<number> {
    for (let attempt = 0; attempt < MAX_ORIGIN; attempt++) {
      const wanted = origin ?? randomInt(1, MAX_ORIGIN + 1);
      const rows = await this.run(
        `INSERT INTO stevedore_gateway (origin, instance, url, place, seen_at, staged_files,
            staged_bytes, adopt_trunks, adopted_trunks)
          VALUES ($1, $2, $3, $4, ${NOW}, 0, 0, 0, 0)
          ON CONFLICT (origin) DO NOTHING RETURNING origin`,
        [wanted, instance, url ?? null, place],
      );
      if (rows.length > 0) return wanted;
      if (origin !== undefined) throw originTaken(origin);
    }
    throw new MapError('origin_taken', 'every origin is taken');
  }

  async heartbeat(
    origin: number,
    place: string,
    { files, bytes }: StagedFiles,
    holder?: number | null,
  ): Promise<boolean> {
    const rows = await this.run(
      `UPDATE stevedore_gateway SET seen_at = ${NOW}, staged_files = $3, staged_bytes = $4,
          holder = CASE WHEN $6::BOOLEAN THEN holder ELSE $5::INTEGER END
        WHERE origin = $1 AND place = $2 AND adopter IS NULL RETURNING origin`,
      [origin, place, files, bytes, holder ?? null, holder === undefined],
    );
    return rows.length > 0;
  }

  async leave(origin: number, place: string): Promise<void> {
    await this.run("UPDATE stevedore_gateway SET place = '' WHERE origin = $1 AND place = $2", [
      origin,
      place,
    ]);
  }

  async gateways(): Promise<Gateway[]> {
    const rows = await this.run(`SELECT ${COLUMNS} FROM stevedore_gateway ORDER BY origin`, []);
    return rows.map(gatewayOf);
  }

  async adopt(origin: number, by: number): Promise<void> {
    const isFree = (row: string) => `(${row}.place = '' OR ${row}.seen_at < ${NOW} - ${IN_USE_MS})
      AND NOT EXISTS (SELECT 1 FROM stevedore_gateway h
        WHERE h.origin = ${row}.holder AND h.origin <> $2 AND h.adopter IS NULL)`;
    // The statement itself checks that the gateway is silent, on the row that it changes.
    const rows = await this.run(
      `UPDATE stevedore_gateway AS a SET adopter = $2, adopt_trouble = NULL,
          adopted_at = CASE WHEN adopter = $2 THEN adopted_at END,
          adopt_trunks = CASE WHEN adopter = $2 THEN adopt_trunks ELSE 0 END,
          adopted_trunks = CASE WHEN adopter = $2 THEN adopted_trunks ELSE 0 END
        WHERE (origin = $1 AND origin <> $2 AND (adopter = $2 OR adopter IS NULL AND ${isFree('a')})
          OR adopter = $1 AND EXISTS (SELECT 1 FROM stevedore_gateway g WHERE g.origin = $1
            AND (g.adopter = $2 OR g.adopter IS NULL AND ${isFree('g')})))
        AND EXISTS (SELECT 1 FROM stevedore_gateway b WHERE b.origin = $2 AND b.adopter IS NULL)
        RETURNING origin`,
      [origin, by],
    );
    if (rows.some((row) => row.origin === origin)) return;
    const why = adoptionObstacle(await this.gateways(), origin, by, await this.now());
    throw adoptionRefused(why ?? `origin ${origin} has changed meanwhile; try again`);
  }

  async recordAdoption(origin: number, adoption: Adoption): Promise<boolean> {
    const { by, isDone, trunks, adopted, trouble } = adoption;
    const rows = await this.run(
      `UPDATE stevedore_gateway SET adopt_trunks = $3, adopted_trunks = $4, adopt_trouble = $6,
          adopted_at = CASE WHEN $5::BOOLEAN THEN coalesce(adopted_at, ${NOW}) END
        WHERE origin = $1 AND adopter = $2 RETURNING origin`,
      [origin, by, trunks, adopted, isDone, trouble ?? null],
    );
    return rows.length > 0;
  }

  async claim(mark: Uint8Array, origin: number, withinMs: number, over?: Claim): Promise<Claim> {
    const isFree = `(c.expires_at < ${NOW} OR (c.origin = $4 AND c.version = $5))`;
    const [row] = await this.run(
      `INSERT INTO stevedore_claim AS c (mark, origin, version, expires_at)
        VALUES (decode($1, 'hex'), $2::INTEGER, 1, ${NOW} + $3::BIGINT)
        ON CONFLICT (mark) DO UPDATE SET
          origin = CASE WHEN ${isFree} THEN excluded.origin ELSE c.origin END,
          version = CASE WHEN ${isFree} OR c.origin = excluded.origin
            THEN c.version + 1 ELSE c.version END,
          expires_at = CASE WHEN ${isFree} OR c.origin = excluded.origin
            THEN excluded.expires_at ELSE c.expires_at END
        RETURNING origin, version`,
      [hex(mark), origin, withinMs, over?.origin ?? -1, over?.version ?? -1],
    );
    return { origin: row!.origin as number, version: Number(row!.version) };
  }

  async reserveUsage(day: number, asks: readonly UsageAsk[]): Promise<UsageGrant[]> {
    const ids = asks.map(({ id }) => id);
    const rows = await this.#granted(day, asks);
    if (rows.length === ids.length) return rows;
    await this.run(
      `INSERT INTO stevedore_usage (key_id, day, bytes, granted)
        SELECT k, $1::INTEGER, 0, 0 FROM unnest($2::TEXT[]) AS f(k) ON CONFLICT DO NOTHING`,
      [day, ids],
    );
    const known = new Set(rows.map(({ id }) => id));
    return [
      ...rows,
      ...(await this.#granted(
        day,
        asks.filter(({ id }) => !known.has(id)),
      )),
    ];
  }

  /** For the keys that have a row. A row is locked while it changes, so no byte is granted twice. */
  async #granted(day: number, asks: readonly UsageAsk[]): Promise<UsageGrant[]> {
    const counted = 'greatest(0, u.bytes + f.used)';
    const granted = `greatest(0, least(f.wanted, f.upto - ${counted}))`;
    const rows = await this.run(
      `UPDATE stevedore_usage AS u SET granted = ${granted}, bytes = ${counted} + ${granted}
        FROM unnest($2::TEXT[], $3::BIGINT[], $4::BIGINT[], $5::BIGINT[])
          AS f(k, used, wanted, upto)
        WHERE u.key_id = f.k AND u.day = $1 RETURNING u.key_id, u.granted, u.bytes`,
      [
        day,
        asks.map(({ id }) => id),
        asks.map(({ usedBytes }) => usedBytes),
        asks.map(({ wantedBytes }) => wantedBytes),
        asks.map(({ limitBytes }) => limitBytes),
      ],
    );
    return rows.map(({ key_id, granted: bytes, bytes: all }) => ({
      ...{ id: key_id as string, grantedBytes: Number(bytes), bytes: Number(all) },
    }));
  }

  /** Forgets expired claims, and usage before yesterday; at most `limit` of each. True: go on. */
  protected async pruneCounts(limit: number): Promise<boolean> {
    const claims = await this.run(
      `DELETE FROM stevedore_claim WHERE mark IN (SELECT mark FROM stevedore_claim
        WHERE expires_at < (SELECT ${NOW}) LIMIT $1) RETURNING 1`,
      [limit],
    );
    const days = await this.run(
      `DELETE FROM stevedore_usage WHERE (key_id, day) IN (SELECT key_id, day FROM stevedore_usage
        WHERE day < (SELECT ${NOW}) / 86400000 - 1 LIMIT $1) RETURNING 1`,
      [limit],
    );
    return Math.max(claims.length, days.length) >= limit;
  }

  async now(): Promise<number> {
    const [row] = await this.run(`SELECT ${NOW} AS now`, []);
    return Number(row!.now);
  }

  /** Creates what is missing of the schema. Resolves with the deployment's secret. */
  async #prepared(): Promise<string> {
    const create = (statement: string) =>
      this.run(statement.replaceAll('BYTES', 'BYTEA'), [], CONCURRENT_CREATE_CODES);
    await create(VERSION_TABLE);
    await this.run(
      `INSERT INTO stevedore_map (only_one, version, secret, spread) VALUES (1, 0, $1, $2)
        ON CONFLICT (only_one) DO NOTHING`,
      [randomBytes(32).toString('hex'), this.options.spread],
    );
    const [row] = await this.run('SELECT version, secret, spread FROM stevedore_map', []);
    const version = row!.version as number;
    if (version > STEPS.length) {
      throw new MapError(
        'map_schema',
        `the map's schema is version ${version}, this program supports ${STEPS.length}; use a later version`,
      );
    }
    for (const step of STEPS.slice(version)) {
      for (const statement of step) await create(statement);
    }
    if (version < STEPS.length) {
      await this.run('UPDATE stevedore_map SET version = $1 WHERE version < $1', [STEPS.length]);
    }
    this.keys = new StoredKeys(row!.spread as boolean);
    return row!.secret as string;
  }
}

function gatewayOf(row: postgres.Row): Gateway {
  return {
    origin: row.origin as number,
    url: row.url as string | null,
    place: row.place as string,
    seenAt: Number(row.seen_at),
    staged: { files: Number(row.staged_files), bytes: Number(row.staged_bytes) },
    holder: (row.holder as number | null) ?? undefined,
    adoption:
      row.adopter === null
        ? undefined
        : {
            by: row.adopter as number,
            isDone: row.adopted_at !== null,
            trunks: Number(row.adopt_trunks),
            adopted: Number(row.adopted_trunks),
            trouble: (row.adopt_trouble as string | null) ?? undefined,
          },
  };
}

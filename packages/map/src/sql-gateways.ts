import { randomBytes, randomInt } from 'node:crypto';
import { adoptionObstacle, inUse, MapError, mapMismatch, originAdopted } from './errors.js';
import {
  type Adoption,
  type Claim,
  type Gateway,
  IN_USE_MS,
  type Joined,
  type Joining,
  type LostFile,
  type Setting,
  type StagedFiles,
  type UsageAsk,
  type UsageGrant,
} from './map.js';
import { MAX_ORIGIN, STEPS, VERSION_TABLE } from './schema.js';
import type { Row, SqlDriver, Topic } from './sql-driver.js';

/** A gateway may fall silent between the statement that adopts it and the look why that did not. */
const ADOPT_ATTEMPTS = 3;

const LIST = `SELECT origin, instance, url, place, seen_at, staged_files, staged_bytes, holder, adopter,
    adopted_at, adopt_trunks, adopted_trunks, adopt_trouble, NOW AS now
  FROM stevedore_gateway ORDER BY origin`;

/** For changes that the other gateways hear of at once. */
const GATEWAYS = [undefined, 'gateways'] as const;

/** The schema of a map in a SQL database, its gateways, claims and usage counts. */
export class SqlGateways {
  protected readonly driver: SqlDriver;
  /** The tables store the random half of a key first. */
  protected spreads = false;
  readonly #spreadsNew: boolean;

  /** `spread`: new tables store the random half of a key first. */
  constructor(driver: SqlDriver, spread: boolean) {
    this.driver = driver;
    this.#spreadsNew = spread;
  }

  /**
   * Calls `prepare` and registers this gateway. Rejects with `map_mismatch`, with `origin_taken` if
   * another directory has this origin or this directory is in use at another place, and with
   * `origin_adopted`.
   */
  async join(gateway: Joining): Promise<Joined> {
    const secret = await this.prepare();
    if (gateway.secret !== undefined && gateway.secret !== secret) throw mapMismatch();
    const { instance, place, url } = gateway;
    const [known] = await this.driver.run(
      'SELECT origin, place, adopter FROM stevedore_gateway WHERE instance = $1',
      [instance],
    );
    if (!known) return { origin: await this.#entered(gateway), secret };
    const origin = Number(known.origin);
    if (gateway.origin !== undefined && gateway.origin !== origin) {
      throw new MapError(
        'origin_taken',
        `the map knows this directory as origin ${origin}, its own keys say ${gateway.origin}: was it copied?`,
      );
    }
    if (known.adopter !== null) throw originAdopted(origin, Number(known.adopter));
    const [entered] = await this.driver.run(
      `UPDATE stevedore_gateway SET url = $2, place = $3, seen_at = NOW
        WHERE instance = $1 AND adopter IS NULL
          AND (place IN ($3, '') OR seen_at < NOW - ${IN_USE_MS}) RETURNING origin`,
      [instance, url ?? null, place],
      ...GATEWAYS,
    );
    if (!entered) throw inUse(String(known.place));
    return { origin, secret };
  }

  async #entered({ instance, origin, url, place }: Joining): Promise<number> {
    for (let attempt = 0; attempt < MAX_ORIGIN; attempt++) {
      const wanted = origin ?? randomInt(1, MAX_ORIGIN + 1);
      const rows = await this.driver.run(
        `INSERT INTO stevedore_gateway (origin, instance, url, place, seen_at, staged_files,
            staged_bytes, adopt_trunks, adopted_trunks)
          VALUES ($1, $2, $3, $4, NOW, 0, 0, 0, 0)
          ON CONFLICT (origin) DO NOTHING RETURNING origin`,
        [wanted, instance, url ?? null, place],
        ...GATEWAYS,
      );
      if (rows.length > 0) return wanted;
      if (origin === undefined) continue;
      throw new MapError(
        'origin_taken',
        `another directory issues keys of origin ${origin}: one of the two is a copy, or was created without the map; start with a new directory`,
      );
    }
    throw new MapError('origin_taken', 'every origin is taken');
  }

  /**
   * The heartbeat of this gateway, and the gateways after it. `holder`: who holds the second copy of
   * its staged files, null for nobody, undefined for no change. `isOurs` is false if its directory is
   * now used at another place, or another gateway has adopted its files.
   */
  async heartbeat(
    origin: number,
    place: string,
    { files, bytes }: StagedFiles,
    holder?: number | null,
  ): Promise<{ readonly isOurs: boolean; readonly gateways: readonly Gateway[] }> {
    const rows = await this.driver.run(
      [
        `UPDATE stevedore_gateway SET seen_at = NOW, staged_files = $3, staged_bytes = $4,
            holder = CASE WHEN CAST($6 AS BOOLEAN) THEN holder ELSE CAST($5 AS INTEGER) END
          WHERE origin = $1 AND place = $2 AND adopter IS NULL`,
        LIST,
      ],
      [origin, place, files, bytes, holder ?? null, holder === undefined],
    );
    const gateways = rows.map(gatewayOf);
    const own = gateways.find((each) => each.origin === origin);
    if (!own || own.place !== place || own.adoption) return { isOurs: false, gateways };
    // A database may list the row as it was before.
    const beat = { ...own, seenAt: Number(rows[0]?.now), staged: { files, bytes } };
    const held = holder === undefined ? beat : { ...beat, holder: holder ?? undefined };
    return { isOurs: true, gateways: gateways.map((each) => (each === own ? held : each)) };
  }

  /** Who holds the second copies of this gateway, for all others at once. False: as `heartbeat`. */
  async recordHolder(origin: number, place: string, holder: number): Promise<boolean> {
    const rows = await this.driver.run(
      `UPDATE stevedore_gateway SET holder = $3, seen_at = NOW
        WHERE origin = $1 AND place = $2 AND adopter IS NULL RETURNING origin`,
      [origin, place, holder],
      ...GATEWAYS,
    );
    return rows.length > 0;
  }

  /** Ends the heartbeat: the directory may be used elsewhere at once. */
  async leave(origin: number, place: string): Promise<void> {
    const left = "UPDATE stevedore_gateway SET place = '' WHERE origin = $1 AND place = $2";
    await this.driver.run(left, [origin, place], ...GATEWAYS);
  }

  async gateways(): Promise<Gateway[]> {
    return (await this.driver.run(LIST)).map(gatewayOf);
  }

  /**
   * Gives the files of a gateway that will not return to another one, including those that it had
   * adopted itself. Rejects with `adoption_refused` if it is alive or already adopted, and if a third
   * one holds the copies of its staged files and was not adopted itself.
   */
  async adopt(origin: number, by: number): Promise<void> {
    const isFree = (row: string) => `(${row}.place = '' OR ${row}.seen_at < NOW - ${IN_USE_MS})
      AND NOT EXISTS (SELECT 1 FROM stevedore_gateway h
        WHERE h.origin = ${row}.holder AND h.origin <> $2 AND h.adopter IS NULL)`;
    // The statement itself checks that the gateway is silent, on the row that it changes.
    const statement = `UPDATE stevedore_gateway AS a SET adopter = $2, adopt_trouble = NULL,
          adopted_at = CASE WHEN adopter = $2 THEN adopted_at END,
          adopt_trunks = CASE WHEN adopter = $2 THEN adopt_trunks ELSE 0 END,
          adopted_trunks = CASE WHEN adopter = $2 THEN adopted_trunks ELSE 0 END
        WHERE (origin = $1 AND origin <> $2 AND (adopter = $2 OR adopter IS NULL AND ${isFree('a')})
          OR adopter = $1 AND EXISTS (SELECT 1 FROM stevedore_gateway g WHERE g.origin = $1
            AND (g.adopter = $2 OR g.adopter IS NULL AND ${isFree('g')})))
        AND EXISTS (SELECT 1 FROM stevedore_gateway b WHERE b.origin = $2 AND b.adopter IS NULL)
        RETURNING origin`;
    for (let attempt = 0; attempt < ADOPT_ATTEMPTS; attempt++) {
      const rows = await this.driver.run(statement, [origin, by], ...GATEWAYS);
      if (rows.some((row) => Number(row.origin) === origin)) return;
      const why = adoptionObstacle(await this.gateways(), origin, by, await this.now());
      if (why !== undefined) throw new MapError('adoption_refused', why);
      // What was in the way is not any more: it has been silent for long enough just now.
    }
    const why = `origin ${origin} changes all the time; try again`;
    throw new MapError('adoption_refused', why);
  }

  /**
   * Records the progress of an adoption, at its end with the files that are lost; false if it is
   * done already, or another gateway has it now.
   */
  async recordAdoption(
    origin: number,
    adoption: Adoption,
    lost: readonly LostFile[] = [],
  ): Promise<boolean> {
    const { by, isDone, trunks, adopted, trouble = null } = adoption;
    const rows = await this.driver.run(
      `UPDATE stevedore_gateway SET adopt_trunks = $3, adopted_trunks = $4, adopt_trouble = $6,
          adopt_lost = $7, adopted_at = CASE WHEN CAST($5 AS BOOLEAN) THEN coalesce(adopted_at, NOW) END
        WHERE origin = $1 AND adopter = $2 AND (CAST($5 AS BOOLEAN) OR adopted_at IS NULL)
        RETURNING origin`,
      [origin, by, trunks, adopted, isDone, trouble, JSON.stringify(lost)],
      undefined,
      isDone ? 'gateways' : undefined,
    );
    return rows.length > 0;
  }

  /** The adopter looks again: the gateway has come back and told of what the map had not heard of. */
  async reopenAdoption(origin: number): Promise<void> {
    await this.driver.run(
      `UPDATE stevedore_gateway SET adopted_at = NULL, holder = NULL
        WHERE origin = $1 AND adopter IS NOT NULL`,
      [origin],
      ...GATEWAYS,
    );
  }

  /** Files that were lost with a gateway, as far as its adopter knows them. */
  async lostWith(origin: number): Promise<readonly LostFile[]> {
    const [row] = await this.driver.run(
      'SELECT adopt_lost FROM stevedore_gateway WHERE origin = $1',
      [origin],
    );
    return JSON.parse(String(row?.adopt_lost ?? '[]'));
  }

  /** Forgets expired claims, and usage before yesterday; at most `limit` of each. True: go on. */
  protected async pruneCounts(limit: number): Promise<boolean> {
    const claims = await this.driver.run(
      `DELETE FROM stevedore_claim WHERE mark IN (SELECT mark FROM stevedore_claim
        WHERE expires_at < (SELECT NOW) LIMIT $1) RETURNING origin`,
      [limit],
    );
    const days = await this.driver.run(
      `DELETE FROM stevedore_usage WHERE (key_id, day) IN (SELECT key_id, day FROM stevedore_usage
        WHERE day < (SELECT NOW) / 86400000 - 1 LIMIT $1) RETURNING day`,
      [limit],
    );
    return Math.max(claims.length, days.length) >= limit;
  }

  /**
   * Claims an upload for a gateway, for `withinMs`; resolves with the claim in force. `over`:
   * replaces that claim, unless it was renewed since.
   */
  async claim(mark: Uint8Array, origin: number, withinMs: number, over?: Claim): Promise<Claim> {
    const isFree = '(c.expires_at < NOW OR (c.origin = $4 AND c.version = $5))';
    const [row] = await this.driver.run(
      `INSERT INTO stevedore_claim AS c (mark, origin, version, expires_at)
        VALUES ($1, CAST($2 AS INTEGER), 1, NOW + CAST($3 AS BIGINT))
        ON CONFLICT (mark) DO UPDATE SET
          origin = CASE WHEN ${isFree} THEN excluded.origin ELSE c.origin END,
          version = CASE WHEN ${isFree} OR c.origin = excluded.origin
            THEN c.version + 1 ELSE c.version END,
          expires_at = CASE WHEN ${isFree} OR c.origin = excluded.origin
            THEN excluded.expires_at ELSE c.expires_at END
        RETURNING origin, version`,
      [mark, origin, withinMs, over?.origin ?? -1, over?.version ?? -1],
    );
    return { origin: Number(row?.origin), version: Number(row?.version) };
  }

  /**
   * Counts and reserves bytes of API keys on a day, counted from 1970. All processes together are
   * never granted more than the limit of a key. Names each key once.
   */
  async reserveUsage(day: number, asks: readonly UsageAsk[]): Promise<UsageGrant[]> {
    const first = await this.#granted(day, asks);
    if (first.length === asks.length) return first;
    const known = new Set(first.map(({ id }) => id));
    const others = asks.filter(({ id }) => !known.has(id));
    await this.driver.run(
      `INSERT INTO stevedore_usage (key_id, day, bytes, granted)
        SELECT k, CAST($1 AS INTEGER), 0, 0 FROM ROWS AS f WHERE TRUE ON CONFLICT DO NOTHING`,
      [day],
      { columns: { k: 'text' }, rows: others.map(({ id }) => [id]) },
    );
    return [...first, ...(await this.#granted(day, others))];
  }

  /** For the keys that have a row. A row is locked while it changes, so no byte is granted twice. */
  async #granted(day: number, asks: readonly UsageAsk[]): Promise<UsageGrant[]> {
    const counted = 'GREATEST(0, u.bytes + f.used)';
    const granted = `GREATEST(0, LEAST(f.wanted, f.upto - ${counted}))`;
    const rows = await this.driver.run(
      `UPDATE stevedore_usage AS u SET granted = ${granted}, bytes = ${counted} + ${granted}
        FROM ROWS AS f WHERE u.key_id = f.k AND u.day = $1 RETURNING key_id, granted, bytes`,
      [day],
      {
        columns: { k: 'text', used: 'integer', wanted: 'integer', upto: 'integer' },
        rows: asks.map(({ id, usedBytes, wantedBytes, limitBytes }) => [
          id,
          usedBytes,
          wantedBytes,
          limitBytes,
        ]),
      },
    );
    return rows.map((row) => ({
      id: String(row.key_id),
      grantedBytes: Number(row.granted),
      bytes: Number(row.bytes),
    }));
  }

  /**
   * Settings that changed since then, by the map's clock: API keys and policies by their names. A change
   * may appear after later ones, by as much as a statement may take.
   */
  async settingsSince(changedAt: number): Promise<Setting[]> {
    const rows = await this.driver.run(
      `SELECT kind, name, body, changed_at FROM stevedore_setting WHERE changed_at >= $1
        ORDER BY changed_at`,
      [changedAt],
    );
    return rows.map((row) => ({
      kind: String(row.kind),
      name: String(row.name),
      body: row.body === null ? null : String(row.body),
      changedAt: Number(row.changed_at),
    }));
  }

  /** Adds or replaces settings, or removes them; what is final and removed stays removed. */
  async setSettings(settings: readonly Omit<Setting, 'changedAt'>[], isFinal: boolean) {
    await this.driver.run(
      `INSERT INTO stevedore_setting AS s (kind, name, body, changed_at)
        SELECT k, n, b, NOW FROM ROWS AS f WHERE TRUE
        ON CONFLICT (kind, name) DO UPDATE SET changed_at = excluded.changed_at,
          body = CASE WHEN CAST($1 AS BOOLEAN) AND s.body IS NULL THEN NULL ELSE excluded.body END`,
      [isFinal],
      {
        columns: { k: 'text', n: 'text', b: 'text' },
        rows: settings.map(({ kind, name, body }) => [kind, name, body]),
      },
      'settings',
    );
  }

  /** Calls back when another gateway, or this one, has changed something of the topic. */
  listen(onTold: (topic: Topic) => void): void {
    this.driver.listen(onTold);
  }

  /** False: what others change has to be looked for. */
  get isListening(): boolean {
    return this.driver.isListening;
  }

  /** Unix milliseconds by the map's clock. */
  async now(): Promise<number> {
    const [row] = await this.driver.run('SELECT NOW AS now');
    return Number(row?.now);
  }

  close(): Promise<void> {
    return this.driver.close();
  }

  /**
   * Creates what is missing of the schema. Resolves with the deployment's secret. For programs that
   * are not gateways, too.
   */
  async prepare(): Promise<string> {
    await this.driver.create(VERSION_TABLE);
    await this.driver.run(
      `INSERT INTO stevedore_map (only_one, version, secret, spread) VALUES (1, 0, $1, $2)
        ON CONFLICT (only_one) DO NOTHING`,
      [randomBytes(32).toString('hex'), this.#spreadsNew],
    );
    const [row] = await this.driver.run('SELECT version, secret, spread FROM stevedore_map');
    const version = Number(row?.version);
    if (version > STEPS.length) {
      throw new MapError(
        'map_schema',
        `the map's schema is version ${version}, this program supports ${STEPS.length}; use a later version`,
      );
    }
    for (const statement of STEPS.slice(version).flat()) await this.driver.create(statement);
    if (version < STEPS.length) {
      const raised = 'UPDATE stevedore_map SET version = $1 WHERE version < $1';
      await this.driver.run(raised, [STEPS.length]);
    }
    this.spreads = Boolean(row?.spread);
    return String(row?.secret);
  }
}

function gatewayOf(row: Row): Gateway {
  const adoption = {
    by: Number(row.adopter),
    isDone: row.adopted_at !== null,
    doneAt: row.adopted_at === null ? undefined : Number(row.adopted_at),
    trunks: Number(row.adopt_trunks),
    adopted: Number(row.adopted_trunks),
    trouble: row.adopt_trouble === null ? undefined : String(row.adopt_trouble),
  };
  return {
    origin: Number(row.origin),
    instance: String(row.instance),
    url: row.url === null ? null : String(row.url),
    place: String(row.place),
    seenAt: Number(row.seen_at),
    staged: { files: Number(row.staged_files), bytes: Number(row.staged_bytes) },
    holder: row.holder === null ? undefined : Number(row.holder),
    adoption: row.adopter === null ? undefined : adoption,
  };
}

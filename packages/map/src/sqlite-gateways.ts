import { randomBytes, randomInt } from 'node:crypto';
import { openDatabase, type SqliteDatabase, type SqliteStatement } from '@stevedore/disk/sqlite';
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
import { MAX_ORIGIN, STEPS, VERSION_TABLE } from './schema.js';

/** The schema of a map in SQLite, its gateways, claims and usage counts. */

const BUSY_TIMEOUT_MS = 10_000;

export type Row = Readonly<Record<string, unknown>>;

export class SqliteGateways {
  readonly #database: SqliteDatabase;
  protected readonly clock: () => number;
  readonly #statements = new Map<string, SqliteStatement>();

  /** `path`: of the file, or `:memory:`. Throws `map_unavailable`. */
  constructor(path: string, now: () => number = Date.now) {
    this.clock = now;
    this.#database = attempt(() => {
      const database = openDatabase(path, { timeout: BUSY_TIMEOUT_MS });
      database.pragma('journal_mode = WAL');
      database.pragma('synchronous = FULL');
      return database;
    });
  }

  async prepare(): Promise<void> {
    this.together(() => this.#prepare());
  }

  async join(gateway: Joining): Promise<Joined> {
    const { instance, url, place } = gateway;
    return this.together(() => {
      const secret = this.#prepare();
      const known = this.get(
        'SELECT origin, place, seen_at, adopter FROM stevedore_gateway WHERE instance = ?',
        instance,
      );
      if (known) checkOrigin(gateway, known.origin as number);
      if (known && known.adopter !== null) {
        throw originAdopted(known.origin as number, known.adopter as number);
      }
      const isSeen =
        known && known.place !== '' && (known.seen_at as number) >= this.clock() - IN_USE_MS;
      if (isSeen && known.place !== place) throw inUse(known.place as string);
      const isTaken = (each: number) =>
        this.get('SELECT 1 FROM stevedore_gateway WHERE origin = ?', each) !== undefined;
      let origin = (known?.origin as number | undefined) ?? gateway.origin;
      if (!known && origin !== undefined && isTaken(origin)) throw originTaken(origin);
      while (origin === undefined) {
        const drawn = randomInt(1, MAX_ORIGIN + 1);
        if (!isTaken(drawn)) origin = drawn;
      }
      this.run(
        `INSERT INTO stevedore_gateway (origin, instance, url, place, seen_at, staged_files,
            staged_bytes, adopt_trunks, adopted_trunks)
          VALUES (?, ?, ?, ?, ?, 0, 0, 0, 0)
          ON CONFLICT (origin) DO UPDATE
            SET url = excluded.url, place = excluded.place, seen_at = excluded.seen_at`,
        ...[origin, instance, url ?? null, place, this.clock()],
      );
      return { origin, secret };
    });
  }

  async heartbeat(
    origin: number,
    place: string,
    { files, bytes }: StagedFiles,
    holder?: number | null,
  ): Promise<boolean> {
    const statement = `UPDATE stevedore_gateway SET seen_at = ?, staged_files = ?, staged_bytes = ?,
        holder = CASE WHEN ? THEN holder ELSE ? END
      WHERE origin = ? AND place = ? AND adopter IS NULL`;
    const held = [holder === undefined ? 1 : 0, holder ?? null];
    return this.run(statement, this.clock(), files, bytes, ...held, origin, place) > 0;
  }

  async leave(origin: number, place: string): Promise<void> {
    const statement = "UPDATE stevedore_gateway SET place = '' WHERE origin = ? AND place = ?";
    this.run(statement, origin, place);
  }

  async gateways(): Promise<Gateway[]> {
    return this.all('SELECT * FROM stevedore_gateway ORDER BY origin').map(gatewayOf);
  }

  async adopt(origin: number, by: number): Promise<void> {
    this.together(() => {
      const gateways = this.all('SELECT * FROM stevedore_gateway').map(gatewayOf);
      const why = adoptionObstacle(gateways, origin, by, this.clock());
      if (why !== undefined) throw adoptionRefused(why);
      this.run(
        `UPDATE stevedore_gateway
          SET adopter = ?, adopted_at = NULL, adopt_trunks = 0, adopted_trunks = 0,
            adopt_trouble = NULL
          WHERE (origin = ? OR adopter = ?) AND adopter IS NOT ?`,
        ...[by, origin, origin, by],
      );
    });
  }

  async recordAdoption(origin: number, adoption: Adoption): Promise<boolean> {
    const { by, isDone, trunks, adopted, trouble } = adoption;
    const statement = `UPDATE stevedore_gateway
      SET adopt_trunks = ?, adopted_trunks = ?, adopt_trouble = ?, adopted_at = CASE WHEN ? THEN coalesce(adopted_at, ?) END
      WHERE origin = ? AND adopter = ?`;
    const progress = [trunks, adopted, trouble ?? null];
    const values = [...progress, isDone ? 1 : 0, this.clock(), origin, by];
    return this.run(statement, ...values) > 0;
  }

  async claim(mark: Uint8Array, origin: number, withinMs: number, over?: Claim): Promise<Claim> {
    return this.together(() => {
      const now = this.clock();
      const known = this.get('SELECT * FROM stevedore_claim WHERE mark = ?', mark);
      const claim = known && {
        origin: known.origin as number,
        version: known.version as number,
      };
      const isFree =
        !claim ||
        (known.expires_at as number) < now ||
        claim.origin === origin ||
        (claim.origin === over?.origin && claim.version === over.version);
      if (!isFree) return claim;
      const version = (claim?.version ?? 0) + 1;
      const statement = 'INSERT OR REPLACE INTO stevedore_claim VALUES (?, ?, ?, ?)';
      this.run(statement, mark, origin, version, now + withinMs);
      return { origin, version };
    });
  }

  async reserveUsage(day: number, asks: readonly UsageAsk[]): Promise<UsageGrant[]> {
    return this.together(() =>
      asks.map(({ id, usedBytes, wantedBytes, limitBytes }) => {
        const row = this.get(
          'SELECT bytes FROM stevedore_usage WHERE key_id = ? AND day = ?',
          ...[id, day],
        );
        const counted = Math.max(0, Number(row?.bytes ?? 0) + usedBytes);
        const grantedBytes = Math.max(0, Math.min(wantedBytes, limitBytes - counted));
        const bytes = counted + grantedBytes;
        const statement = 'INSERT OR REPLACE INTO stevedore_usage VALUES (?, ?, ?, ?)';
        this.run(statement, id, day, bytes, grantedBytes);
        return { id, grantedBytes, bytes };
      }),
    );
  }

  /** Forgets expired claims, and usage before yesterday; at most `limit` of each. True: go on. */
  protected pruneCounts(limit: number): boolean {
    const now = this.clock();
    const claims = this.run(
      `DELETE FROM stevedore_claim WHERE mark IN (SELECT mark FROM stevedore_claim
        WHERE expires_at < ? LIMIT ?)`,
      ...[now, limit],
    );
    const days = this.run(
      `DELETE FROM stevedore_usage WHERE (key_id, day) IN (SELECT key_id, day FROM stevedore_usage
        WHERE day < ? LIMIT ?)`,
      ...[Math.floor(now / 86_400_000) - 1, limit],
    );
    return Math.max(claims, days) >= limit;
  }

  async now(): Promise<number> {
    return this.clock();
  }

  async close(): Promise<void> {
    this.#database.close();
  }

  #prepare(): string {
    this.#database.exec(VERSION_TABLE);
    const secret = randomBytes(32).toString('hex');
    this.run(
      `INSERT INTO stevedore_map (only_one, version, secret, spread) VALUES (1, 0, ?, 0)
        ON CONFLICT (only_one) DO NOTHING`,
      secret,
    );
    const row = this.get('SELECT version, secret FROM stevedore_map')!;
    const version = row.version as number;
    if (version > STEPS.length) {
      throw new MapError(
        'map_schema',
        `the map's schema is version ${version}, this program supports ${STEPS.length}; use a later version`,
      );
    }
    for (const statement of STEPS.slice(version).flat()) {
      this.#database.exec(statement.replaceAll('BYTES', 'BLOB'));
    }
    this.run('UPDATE stevedore_map SET version = ?', STEPS.length);
    return row.secret as string;
  }

  protected together<Result>(action: () => Result): Result {
    return attempt(() => this.#database.transaction(action).immediate());
  }

  #prepared(statement: string): SqliteStatement {
    let prepared = this.#statements.get(statement);
    if (!prepared) {
      prepared = this.#database.prepare(statement);
      this.#statements.set(statement, prepared);
    }
    return prepared;
  }

  /** Returns the number of changed rows. */
  protected run(statement: string, ...values: unknown[]): number {
    return attempt(() => this.#prepared(statement).run(...values).changes);
  }

  protected get(statement: string, ...values: unknown[]): Row | undefined {
    return attempt(() => this.#prepared(statement).get(...values) as Row | undefined);
  }

  protected all(statement: string, ...values: unknown[]): Row[] {
    return attempt(() => this.#prepared(statement).all(...values) as Row[]);
  }
}

function gatewayOf(row: Row): Gateway {
  return {
    origin: row.origin as number,
    url: row.url as string | null,
    place: row.place as string,
    seenAt: row.seen_at as number,
    staged: { files: row.staged_files as number, bytes: row.staged_bytes as number },
    holder: (row.holder as number | null) ?? undefined,
    adoption:
      row.adopter === null
        ? undefined
        : {
            by: row.adopter as number,
            isDone: row.adopted_at !== null,
            trunks: row.adopt_trunks as number,
            adopted: row.adopted_trunks as number,
            trouble: (row.adopt_trouble as string | null) ?? undefined,
          },
  };
}

/** Converts errors of SQLite to `map_unavailable`. */
function attempt<Result>(action: () => Result): Result {
  try {
    return action();
  } catch (error) {
    if (error instanceof MapError) throw error;
    throw new MapError('map_unavailable', `the map refused: ${(error as Error).message}`, error);
  }
}

import { randomBytes, randomInt } from 'node:crypto';
import { openDatabase, type SqliteDatabase, type SqliteStatement } from '@stevedore/disk/sqlite';
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

/**
 * A map in one SQLite file, for several processes of one host, or in memory for tests. All
 * times are those of the host's clock.
 */

const BUSY_TIMEOUT_MS = 10_000;

export class SqliteMap implements DeploymentMap {
  readonly #database: SqliteDatabase;
  readonly #now: () => number;
  readonly #statements = new Map<string, SqliteStatement>();

  /** `path`: of the file, or `:memory:`. Throws `map_unavailable`. */
  constructor(path: string, now: () => number = Date.now) {
    this.#now = now;
    this.#database = attempt(() => {
      const database = openDatabase(path, { timeout: BUSY_TIMEOUT_MS });
      database.pragma('journal_mode = WAL');
      database.pragma('synchronous = FULL');
      return database;
    });
  }

  async join(gateway: Joining): Promise<Joined> {
    const { instance, url, place } = gateway;
    return this.#together(() => {
      const secret = this.#prepare();
      const known = this.#get(
        'SELECT origin, place, seen_at FROM stevedore_gateway WHERE instance = ?',
        instance,
      );
      if (known) checkOrigin(gateway, known.origin as number);
      const isSeen = known && (known.seen_at as number) >= this.#now() - IN_USE_MS;
      if (isSeen && known.place !== place) throw inUse(known.place as string);
      const isTaken = (each: number) =>
        this.#get('SELECT 1 FROM stevedore_gateway WHERE origin = ?', each) !== undefined;
      let origin = (known?.origin as number | undefined) ?? gateway.origin;
      if (!known && origin !== undefined && isTaken(origin)) throw originTaken(origin);
      while (origin === undefined) {
        const drawn = randomInt(1, MAX_ORIGIN + 1);
        if (!isTaken(drawn)) origin = drawn;
      }
      this.#run(
        `INSERT INTO stevedore_gateway (origin, instance, url, place, seen_at)
          VALUES (?, ?, ?, ?, ?)
          ON CONFLICT (origin) DO UPDATE
            SET url = excluded.url, place = excluded.place, seen_at = excluded.seen_at`,
        ...[origin, instance, url ?? null, place, this.#now()],
      );
      return { origin, secret };
    });
  }

  async seen(origin: number, place: string): Promise<boolean> {
    const statement = 'UPDATE stevedore_gateway SET seen_at = ? WHERE origin = ? AND place = ?';
    return this.#run(statement, this.#now(), origin, place) > 0;
  }

  async leave(origin: number, place: string): Promise<void> {
    const statement = 'UPDATE stevedore_gateway SET seen_at = 0 WHERE origin = ? AND place = ?';
    this.#run(statement, origin, place);
  }

  async gateways(): Promise<Gateway[]> {
    const rows = this.#all('SELECT origin, url, seen_at FROM stevedore_gateway ORDER BY origin');
    return rows.map((row) => ({
      origin: row.origin as number,
      url: row.url as string | null,
      seenAt: row.seen_at as number,
    }));
  }

  async place({ id, fileId }: Trunk, files: readonly PlacedFile[]): Promise<void> {
    this.#together(() => {
      this.#run(
        `INSERT INTO stevedore_trunk (trunk, file_id) VALUES (?, ?)
          ON CONFLICT (trunk) DO UPDATE SET file_id = excluded.file_id`,
        ...[id, fileId],
      );
      for (const { key, offset, size, crc32, about, expiresAt } of files) {
        const removed = 'UPDATE stevedore_removal SET trunk = ? WHERE file_key = ?';
        if (this.#run(removed, id, key) > 0) continue;
        this.#run(
          `INSERT INTO stevedore_file
            (file_key, trunk, position, size, crc32, about, expires_at)
            VALUES (?, ?, ?, ?, ?, ?, ?)
            ON CONFLICT (file_key) DO UPDATE SET trunk = excluded.trunk, position = excluded.position`,
          ...[key, id, offset, size, crc32, about, expiresAt],
        );
      }
    });
  }

  async retire(trunk: Uint8Array): Promise<void> {
    this.#run('DELETE FROM stevedore_trunk WHERE trunk = ?', trunk);
  }

  async remove(files: readonly RemovedFile[], isSettled: boolean): Promise<void> {
    this.#together(() => {
      for (const { key, trunk } of files) {
        const placed = this.#get('SELECT trunk FROM stevedore_file WHERE file_key = ?', key);
        this.#run('DELETE FROM stevedore_file WHERE file_key = ?', key);
        this.#run(
          `INSERT INTO stevedore_removal (file_key, origin, trunk, removed_at, settled)
            VALUES (?, ?, ?, ?, ?)
            ON CONFLICT (file_key) DO UPDATE SET settled = max(settled, excluded.settled),
              trunk = coalesce(excluded.trunk, trunk)`,
          ...[key, originOf(key), trunk ?? placed?.trunk ?? null, this.#now(), isSettled ? 1 : 0],
        );
      }
    });
  }

  async find(keys: readonly Uint8Array[]): Promise<(MappedFile | 'removed' | undefined)[]> {
    return keys.map((key) => {
      if (this.#get('SELECT 1 FROM stevedore_removal WHERE file_key = ?', key)) return 'removed';
      const row = this.#get(
        `SELECT file_id, position, size, crc32, about, expires_at FROM stevedore_file
          JOIN stevedore_trunk USING (trunk) WHERE file_key = ?`,
        key,
      );
      return row && mapped(row);
    });
  }

  async removalsAfter({ removedAt, key }: Removal, limit: number): Promise<Removal[]> {
    const rows = this.#all(
      `SELECT file_key, removed_at FROM stevedore_removal
        WHERE (removed_at, file_key) > (?, ?) ORDER BY removed_at, file_key LIMIT ?`,
      ...[removedAt, key, limit],
    );
    return rows.map((row) => ({
      key: row.file_key as Buffer,
      removedAt: row.removed_at as number,
    }));
  }

  async removalsFor(origin: number, limit: number): Promise<Uint8Array[]> {
    const rows = this.#all(
      'SELECT file_key FROM stevedore_removal WHERE origin = ? AND NOT settled LIMIT ?',
      ...[origin, limit],
    );
    return rows.map((row) => row.file_key as Buffer);
  }

  async prune(before: number): Promise<void> {
    this.#run(
      `DELETE FROM stevedore_removal WHERE settled AND removed_at < ?
        AND NOT EXISTS (SELECT 1 FROM stevedore_trunk t WHERE t.trunk = stevedore_removal.trunk)`,
      before,
    );
  }

  async now(): Promise<number> {
    return this.#now();
  }

  async close(): Promise<void> {
    this.#database.close();
  }

  #prepare(): string {
    this.#database.exec(VERSION_TABLE);
    const secret = randomBytes(32).toString('hex');
    this.#run(
      `INSERT INTO stevedore_map (only_one, version, secret, spread) VALUES (1, 0, ?, 0)
        ON CONFLICT (only_one) DO NOTHING`,
      secret,
    );
    const row = this.#get('SELECT version, secret FROM stevedore_map')!;
    const version = row.version as number;
    if (version > STEPS.length) {
      throw new MapError(
        'map_schema',
        `the map's schema is version ${version}, this program knows ${STEPS.length}: use a later one`,
      );
    }
    for (const statement of STEPS.slice(version).flat()) {
      this.#database.exec(statement.replaceAll('BYTES', 'BLOB'));
    }
    this.#run('UPDATE stevedore_map SET version = ?', STEPS.length);
    return row.secret as string;
  }

  #together<Result>(action: () => Result): Result {
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

  /** How many rows it changed. */
  #run(statement: string, ...values: unknown[]): number {
    return attempt(() => this.#prepared(statement).run(...values).changes);
  }

  #get(statement: string, ...values: unknown[]): Row | undefined {
    return attempt(() => this.#prepared(statement).get(...values) as Row | undefined);
  }

  #all(statement: string, ...values: unknown[]): Row[] {
    return attempt(() => this.#prepared(statement).all(...values) as Row[]);
  }
}

type Row = Readonly<Record<string, unknown>>;

function mapped(row: Row): MappedFile {
  return {
    trunkFileId: row.file_id as string,
    offset: row.position as number,
    size: row.size as number,
    crc32: row.crc32 as number,
    about: row.about as string,
    expiresAt: row.expires_at as number | null,
  };
}

/** What SQLite throws is `map_unavailable`. */
function attempt<Result>(action: () => Result): Result {
  try {
    return action();
  } catch (error) {
    if (error instanceof MapError) throw error;
    throw new MapError('map_unavailable', `the map refused: ${(error as Error).message}`, error);
  }
}

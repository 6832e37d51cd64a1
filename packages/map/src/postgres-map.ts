import type postgres from 'postgres';
import {
  type DeploymentMap,
  IN_USE_MS,
  type ListedFile,
  type ListedTrunk,
  type MappedFile,
  originOf,
  type PlacedFile,
  type Removal,
  type RemovedFile,
  type Trunk,
  wholeOf,
} from './map.js';
import { hex } from './postgres-connection.js';
import { NOW, PostgresGateways } from './postgres-gateways.js';

/**
 * A map in PostgreSQL, or in a database that speaks its protocol and scales out: one statement
 * for any number of files, no advisory locks, no sequences.
 */

export class PostgresMap extends PostgresGateways implements DeploymentMap {
  async place({ id, fileId, isThin }: Trunk, files: readonly PlacedFile[]): Promise<void> {
    const whole = wholeOf(files);
    await this.run(
      `WITH files AS (
        SELECT decode(k, 'hex') AS file_key, p, s, c, a, e FROM unnest(
          $3::TEXT[], $4::BIGINT[], $5::BIGINT[], $6::BIGINT[], $7::TEXT[], $8::BIGINT[]
        ) AS f(k, p, s, c, a, e)
      ), trunk AS (
        INSERT INTO stevedore_trunk (trunk, file_id, whole, thin)
          VALUES (decode($1, 'hex'), $2, decode($9, 'hex'), coalesce($10::BOOLEAN, FALSE))
          ON CONFLICT (trunk) DO UPDATE SET file_id = excluded.file_id,
            thin = coalesce($10::BOOLEAN, stevedore_trunk.thin),
            whole = coalesce(excluded.whole, stevedore_trunk.whole)
      ), removed AS (
        UPDATE stevedore_removal SET trunk = decode($1, 'hex') FROM files
          WHERE stevedore_removal.file_key = files.file_key
      )
      INSERT INTO stevedore_file (file_key, trunk, position, size, crc32, about, expires_at)
        SELECT file_key, decode($1, 'hex'), p, s, c, a, e FROM files
        WHERE NOT EXISTS (SELECT 1 FROM stevedore_removal r WHERE r.file_key = files.file_key)
        ON CONFLICT (file_key) DO UPDATE SET trunk = excluded.trunk,
          position = excluded.position, size = excluded.size, crc32 = excluded.crc32,
          about = excluded.about, expires_at = excluded.expires_at
          WHERE position($2 IN stevedore_file.about) = 0`,
      [
        hex(id),
        fileId,
        files.map(({ key }) => this.keys.hex(key)),
        files.map(({ offset }) => offset),
        files.map(({ size }) => size),
        files.map(({ crc32 }) => crc32),
        files.map(({ about }) => about),
        files.map(({ expiresAt }) => expiresAt),
        whole ? this.keys.hex(whole) : null,
        isThin ?? null,
      ],
    );
  }

  async retire(trunk: Uint8Array): Promise<void> {
    await this.run("DELETE FROM stevedore_trunk WHERE trunk = decode($1, 'hex')", [hex(trunk)]);
  }

  async remove(files: readonly RemovedFile[], isSettled: boolean): Promise<void> {
    await this.run(
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
        files.map(({ key }) => this.keys.hex(key)),
        files.map(({ key }) => originOf(key)),
        files.map(({ trunk }) => (trunk ? hex(trunk) : null)),
        isSettled,
      ],
    );
  }

  async find(keys: readonly Uint8Array[]): Promise<(MappedFile | 'removed' | undefined)[]> {
    const wanted = keys.map((key) => this.keys.hex(key));
    const rows = await this.run(
      `SELECT encode(f.file_key, 'hex') AS k, f.position, f.size, f.crc32, f.about, f.expires_at,
          t.file_id, t.thin, FALSE AS removed
        FROM stevedore_file f JOIN stevedore_trunk t ON t.trunk = f.trunk
        WHERE f.file_key IN (SELECT decode(k, 'hex') FROM unnest($1::TEXT[]) AS g(k))
      UNION ALL
      SELECT encode(r.file_key, 'hex'), 0, 0, 0, '', NULL, '', FALSE, TRUE FROM stevedore_removal r
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
    const rows = await this.run(
      `SELECT encode(file_key, 'hex') AS k, removed_at FROM stevedore_removal
        WHERE (removed_at, file_key) > ($1, decode($2, 'hex'))
        ORDER BY removed_at, file_key LIMIT $3`,
      [removedAt, this.keys.hex(key), limit],
    );
    return rows.map((row) => ({ key: this.#keyOf(row), removedAt: Number(row.removed_at) }));
  }

  async removalsFor(origins: readonly number[], limit: number): Promise<Uint8Array[]> {
    const rows = await this.run(
      `SELECT encode(file_key, 'hex') AS k FROM stevedore_removal
        WHERE origin = ANY($1::INTEGER[]) AND NOT settled LIMIT $2`,
      [origins, limit],
    );
    return rows.map((row) => this.#keyOf(row));
  }

  async removalsOf(origin: number, after: Uint8Array, limit: number): Promise<Uint8Array[]> {
    const rows = await this.run(
      `SELECT encode(file_key, 'hex') AS k FROM stevedore_removal
        WHERE origin = $1 AND file_key > decode($2, 'hex') ORDER BY file_key LIMIT $3`,
      [origin, this.keys.hex(after), limit],
    );
    return rows.map((row) => this.#keyOf(row));
  }

  async trunks(after: Uint8Array, limit: number, origin?: number): Promise<ListedTrunk[]> {
    const rows = await this.run(
      `SELECT encode(t.trunk, 'hex') AS t, t.file_id, t.thin, t.whole IS NOT NULL AS whole,
          encode(f.file_key, 'hex') AS k, f.position, f.size, f.crc32, f.about, f.expires_at
        FROM stevedore_trunk t
          LEFT JOIN stevedore_file f ON f.file_key = t.whole AND f.trunk = t.trunk
            AND NOT EXISTS (SELECT 1 FROM stevedore_removal r WHERE r.file_key = t.whole)
        WHERE t.trunk > decode($1, 'hex')
          AND ($3::TEXT IS NULL OR encode(substring(t.trunk FROM 7 FOR 2), 'hex') = $3)
        ORDER BY t.trunk LIMIT $2`,
      [hex(after), limit, origin === undefined ? null : origin.toString(16).padStart(4, '0')],
    );
    return rows.map((row) => ({
      id: Buffer.from(row.t as string, 'hex'),
      fileId: row.file_id as string,
      isWhole: row.whole as boolean,
      file: row.k === null ? undefined : { ...mapped(row), key: this.#keyOf(row) },
    }));
  }

  async files(after: Uint8Array | undefined, limit: number): Promise<ListedFile[]> {
    const rows = await this.run(
      `SELECT encode(f.file_key, 'hex') AS k, f.position, f.size, f.crc32, f.about, f.expires_at,
          t.file_id, t.thin, encode(f.trunk, 'hex') AS t
        FROM stevedore_file f LEFT JOIN stevedore_trunk t ON t.trunk = f.trunk
        WHERE f.file_key > decode($1, 'hex') ORDER BY f.file_key LIMIT $2`,
      [after ? this.keys.hex(after) : '', limit],
    );
    return rows.map((row) => ({
      ...mapped(row),
      key: this.#keyOf(row),
      trunk: Buffer.from(row.t as string, 'hex'),
    }));
  }

  async displace(trunk: Uint8Array, keys: readonly Uint8Array[]): Promise<void> {
    await this.run(
      `DELETE FROM stevedore_file WHERE trunk = decode($1, 'hex')
        AND file_key IN (SELECT decode(k, 'hex') FROM unnest($2::TEXT[]) AS g(k))`,
      [hex(trunk), keys.map((key) => this.keys.hex(key))],
    );
  }

  async prune(before: number, after: Removal, limit: number): Promise<Removal | undefined> {
    const hasMore = await this.pruneCounts(limit);
    // A file that was placed concurrently with its removal is deleted with it.
    const [last] = await this.run(
      `WITH old AS (
        SELECT file_key, removed_at FROM stevedore_removal
          WHERE (removed_at, file_key) > ($2, decode($3, 'hex')) AND removed_at < $1
          ORDER BY removed_at, file_key LIMIT $4
      ), pruned AS (
        DELETE FROM stevedore_removal WHERE settled AND file_key IN (SELECT file_key FROM old)
          AND NOT EXISTS (
            SELECT 1 FROM stevedore_trunk t WHERE t.trunk = stevedore_removal.trunk
          ) AND origin NOT IN (
            SELECT origin FROM stevedore_gateway
              WHERE seen_at < ${NOW} - ${IN_USE_MS} AND adopted_at IS NULL
          ) RETURNING file_key
      ), files AS (
        DELETE FROM stevedore_file WHERE file_key IN (SELECT file_key FROM pruned)
      )
      SELECT encode(file_key, 'hex') AS k, removed_at, (SELECT count(*) FROM old) AS n FROM old
        ORDER BY old.removed_at DESC, old.file_key DESC LIMIT 1`,
      [before, after.removedAt, this.keys.hex(after.key), limit],
    );
    if (!hasMore && Number(last?.n ?? 0) < limit) return undefined;
    return last ? { key: this.#keyOf(last), removedAt: Number(last.removed_at) } : after;
  }

  #keyOf(row: postgres.Row): Buffer {
    return this.keys.key(Buffer.from(row.k as string, 'hex'));
  }
}

function mapped(row: postgres.Row): MappedFile {
  const expiresAt = row.expires_at as string | null;
  return {
    trunkFileId: (row.file_id ?? '') as string,
    isThin: row.thin === true,
    offset: Number(row.position),
    size: Number(row.size),
    crc32: Number(row.crc32),
    about: row.about as string,
    expiresAt: expiresAt === null ? null : Number(expiresAt),
  };
}

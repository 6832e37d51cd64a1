import {
  IN_USE_MS,
  type ListedFile,
  type ListedTrunk,
  type MappedFile,
  originOf,
  type PlacedFile,
  RETURN_MS,
  type Removal,
  type RemovedFile,
  type Trunk,
  wholeOf,
} from './map.js';
import type { List, Row } from './sql-driver.js';
import { SqlGateways } from './sql-gateways.js';

/**
 * A map in a SQL database: one statement for any number of files, no advisory locks, no sequences.
 * All methods reject with `MapError`.
 */

/** For this long, a directory that was adopted may come back with files that were deleted since. */
const KEPT_MS = RETURN_MS + 86_400_000;
/** Removals of a gateway that is down stay, for its adopter and its return. */
const PRUNED = `r.settled AND r.removed_at < $1 AND r.origin NOT IN (
    SELECT origin FROM stevedore_gateway
    WHERE adopted_at > NOW - ${KEPT_MS} OR adopted_at IS NULL AND seen_at < NOW - ${IN_USE_MS})`;
/** Each has thousands of files. */
const TRUNKS_PRUNED_AT_ONCE = 5;

export class SqlMap extends SqlGateways {
  /**
   * Enters the files of a trunk, or moves them to it. Removed files stay removed, and files that
   * have moved on from this trunk stay where they are.
   */
  async place({ id, fileId, isThin }: Trunk, files: readonly PlacedFile[]): Promise<void> {
    const whole = wholeOf(files);
    await this.driver.run(
      [
        `INSERT INTO stevedore_trunk (trunk, file_id, whole, thin)
          VALUES (CAST($1 AS BYTES), $2, CAST($3 AS BYTES), coalesce(CAST($4 AS BOOLEAN), FALSE))
          ON CONFLICT (trunk) DO UPDATE SET file_id = excluded.file_id,
            thin = coalesce(CAST($4 AS BOOLEAN), stevedore_trunk.thin),
            whole = coalesce(excluded.whole, stevedore_trunk.whole)`,
        `UPDATE stevedore_removal SET trunk = CAST($1 AS BYTES) FROM ROWS AS f
          WHERE file_key = f.k`,
        `INSERT INTO stevedore_file (file_key, trunk, position, size, crc32, about, expires_at)
          SELECT k, CAST($1 AS BYTES), p, s, c, a, e FROM ROWS AS f
          WHERE NOT EXISTS (SELECT 1 FROM stevedore_removal r WHERE r.file_key = k)
          ON CONFLICT (file_key) DO UPDATE SET trunk = excluded.trunk,
            position = excluded.position, size = excluded.size, crc32 = excluded.crc32,
            about = excluded.about, expires_at = excluded.expires_at
            WHERE POSITION(stevedore_file.about, $2) = 0`,
      ],
      [id, fileId, whole ? this.#stored(whole) : null, isThin ?? null],
      {
        columns: { k: 'bytes', p: 'integer', s: 'integer', c: 'integer', a: 'text', e: 'integer' },
        rows: files.map(({ key, offset, size, crc32, about, expiresAt }) => [
          this.#stored(key),
          offset,
          size,
          crc32,
          about,
          expiresAt,
        ]),
      },
    );
  }

  /** Forgets a trunk whose files were all moved or deleted; `prune` forgets its removals later. */
  async retire(trunk: Uint8Array): Promise<void> {
    await this.driver.run(
      [
        `INSERT INTO stevedore_retired (trunk, retired_at) VALUES (CAST($1 AS BYTES), NOW)
          ON CONFLICT (trunk) DO NOTHING`,
        'DELETE FROM stevedore_trunk WHERE trunk = $1',
      ],
      [trunk],
    );
  }

  /**
   * Removes files. `isSettled`: their gateways have deleted them; otherwise each gateway finds in
   * `removalsFor` what it must delete.
   */
  async remove(files: readonly RemovedFile[], isSettled: boolean): Promise<void> {
    const rows = new Map(
      files.map(({ key, trunk = null }) => {
        const stored = this.#stored(key);
        return [stored.toString('hex'), [stored, originOf(key), trunk]] as const;
      }),
    );
    await this.driver.run(
      [
        `INSERT INTO stevedore_removal (file_key, origin, trunk, removed_at, settled)
          SELECT k, o, coalesce(f.t, m.trunk), NOW, CAST($1 AS BOOLEAN)
            FROM ROWS AS f LEFT JOIN stevedore_file m ON m.file_key = k WHERE TRUE
          ON CONFLICT (file_key) DO UPDATE SET
            settled = stevedore_removal.settled OR excluded.settled,
            trunk = coalesce(excluded.trunk, stevedore_removal.trunk)`,
        'DELETE FROM stevedore_file WHERE file_key IN (SELECT k FROM ROWS AS f)',
      ],
      [isSettled],
      { columns: { k: 'bytes', o: 'integer', t: 'bytes' }, rows: [...rows.values()] },
      'removals',
    );
  }

  /** The answers are in the order of the keys; undefined for an unknown one. */
  async find(keys: readonly Uint8Array[]): Promise<(MappedFile | 'removed' | undefined)[]> {
    const wanted = keys.map((key) => this.#stored(key));
    const rows = await this.driver.run(
      `SELECT f.file_key, f.position, f.size, f.crc32, f.about, f.expires_at, t.file_id, t.thin,
          FALSE AS removed
        FROM ROWS AS g JOIN stevedore_file f ON f.file_key = g.k
          JOIN stevedore_trunk t ON t.trunk = f.trunk
      UNION ALL
      SELECT r.file_key, 0, 0, 0, '', NULL, '', FALSE, TRUE
        FROM ROWS AS g JOIN stevedore_removal r ON r.file_key = g.k`,
      [],
      keyList(wanted),
    );
    const found = new Map<string, MappedFile | 'removed'>();
    for (const row of rows) {
      const key = bytesOf(row.file_key).toString('hex');
      if (row.removed) found.set(key, 'removed');
      else if (!found.has(key)) found.set(key, mapped(row));
    }
    return wanted.map((key) => found.get(key.toString('hex')));
  }

  /**
   * Removals after that one in the order of time and key, so that caches can drop them; at most
   * `limit`. A removal may appear after later ones, by as much as a statement may take.
   */
  async removalsAfter({ removedAt, key }: Removal, limit: number): Promise<Removal[]> {
    const rows = await this.driver.run(
      `SELECT file_key, removed_at FROM stevedore_removal
        WHERE (removed_at, file_key) > ($1, $2) ORDER BY removed_at, file_key LIMIT $3`,
      [removedAt, this.#stored(key), limit],
    );
    return rows.map((row) => ({ key: this.#keyOf(row), removedAt: Number(row.removed_at) }));
  }

  /** Removed keys of these origins that their gateways have not deleted yet; at most `limit`. */
  async removalsFor(origins: readonly number[], limit: number): Promise<Uint8Array[]> {
    const rows = await this.driver.run(
      `SELECT file_key FROM stevedore_removal
        WHERE origin IN (SELECT o FROM ROWS AS f) AND NOT settled LIMIT $1`,
      [limit],
      { columns: { o: 'integer' }, rows: origins.map((origin) => [origin]) },
    );
    return rows.slice(0, limit).map((row) => this.#keyOf(row));
  }

  /** All removed keys of the origin after that one, settled or not, in order; at most `limit`. */
  async removalsOf(origin: number, after: Uint8Array, limit: number): Promise<Uint8Array[]> {
    const rows = await this.driver.run(
      `SELECT file_key FROM stevedore_removal WHERE origin = $1 AND file_key > $2
        ORDER BY file_key LIMIT $3`,
      [origin, this.#stored(after), limit],
    );
    return rows.map((row) => this.#keyOf(row));
  }

  /** Trunks after that one, in order, of all origins or of one; at most `limit`. */
  async trunks(after: Uint8Array, limit: number, origin?: number): Promise<ListedTrunk[]> {
    const two = Buffer.alloc(2);
    two.writeUInt16BE(origin ?? 0);
    const rows = await this.driver.run(
      `SELECT t.trunk, t.file_id, t.thin, t.whole IS NOT NULL AS is_whole,
          f.file_key, f.position, f.size, f.crc32, f.about, f.expires_at
        FROM stevedore_trunk t
          LEFT JOIN stevedore_file f ON f.file_key = t.whole AND f.trunk = t.trunk
            AND NOT EXISTS (SELECT 1 FROM stevedore_removal r WHERE r.file_key = t.whole)
        WHERE t.trunk > $1
          AND (CAST($3 AS BYTES) IS NULL OR substr(t.trunk, 7, 2) = CAST($3 AS BYTES))
        ORDER BY t.trunk LIMIT $2`,
      [after, limit, origin === undefined ? null : two],
    );
    return rows.map((row) => ({
      id: bytesOf(row.trunk),
      fileId: String(row.file_id),
      isWhole: Boolean(row.is_whole),
      file: row.file_key === null ? undefined : { ...mapped(row), key: this.#keyOf(row) },
    }));
  }

  /** Files after that one, in the order of the map; at most `limit`. */
  async files(after: Uint8Array | undefined, limit: number): Promise<ListedFile[]> {
    const rows = await this.driver.run(
      `SELECT f.file_key, f.position, f.size, f.crc32, f.about, f.expires_at, t.file_id, t.thin,
          f.trunk
        FROM stevedore_file f LEFT JOIN stevedore_trunk t ON t.trunk = f.trunk
        WHERE f.file_key > $1 ORDER BY f.file_key LIMIT $2`,
      [after ? this.#stored(after) : Buffer.alloc(0), limit],
    );
    return rows.map((row) => ({
      ...mapped(row),
      key: this.#keyOf(row),
      trunk: bytesOf(row.trunk),
    }));
  }

  /** Deletes the places of files that the map still has in that trunk. */
  async displace(trunk: Uint8Array, keys: readonly Uint8Array[]): Promise<void> {
    await this.driver.run(
      `DELETE FROM stevedore_file WHERE trunk = $1
        AND file_key IN (SELECT k FROM ROWS AS f)`,
      [trunk],
      keyList(keys.map((key) => this.#stored(key))),
    );
  }

  /** True for one gateway in so many milliseconds: it prunes for all. */
  async mayPrune(withinMs: number): Promise<boolean> {
    const rows = await this.driver.run(
      'UPDATE stevedore_map SET pruned_at = NOW WHERE pruned_at < NOW - $1 RETURNING version',
      [withinMs],
    );
    return rows.length > 0;
  }

  /**
   * Forgets settled removals before that time whose trunk was retired before it, or that never had
   * one: while a trunk exists, its directory lists the file. Reads a few retired trunks, and no other
   * removals than theirs. Also forgets expired claims, and usage before yesterday. At most `limit` of
   * each; true if there may be more.
   */
  async prune(before: number, limit: number): Promise<boolean> {
    const hasMore = await this.pruneCounts(limit);
    const none = await this.driver.run(
      `DELETE FROM stevedore_removal WHERE file_key IN (
        SELECT r.file_key FROM stevedore_removal r WHERE r.trunk IS NULL AND ${PRUNED} LIMIT $2)
        RETURNING origin`,
      [before, limit],
    );
    const retired = await this.driver.run(
      `SELECT trunk FROM stevedore_retired WHERE retired_at < $1
        ORDER BY retired_at LIMIT ${TRUNKS_PRUNED_AT_ONCE}`,
      [before],
    );
    const trunks: List = {
      columns: { t: 'bytes' },
      rows: retired.map((row) => [bytesOf(row.trunk)]),
    };
    if (retired.length > 0) await this.#pruneTrunks(before, trunks);
    return hasMore || none.length >= limit || retired.length === TRUNKS_PRUNED_AT_ONCE;
  }

  async #pruneTrunks(before: number, trunks: List): Promise<void> {
    const pruned = `SELECT r.file_key FROM ROWS AS f JOIN stevedore_removal r ON r.trunk = f.t
      WHERE ${PRUNED}`;
    // A file that was placed concurrently with its removal is deleted with it.
    await this.driver.run(
      [
        `DELETE FROM stevedore_file WHERE file_key IN (${pruned})`,
        `DELETE FROM stevedore_removal WHERE file_key IN (${pruned})`,
      ],
      [before],
      trunks,
    );
    await this.driver.run(
      `DELETE FROM stevedore_retired WHERE trunk IN (SELECT t FROM ROWS AS f) AND NOT EXISTS (
        SELECT 1 FROM stevedore_removal r WHERE r.trunk = stevedore_retired.trunk)`,
      [],
      trunks,
    );
    // What is kept is looked at again when as much time has passed once more.
    await this.driver.run(
      'UPDATE stevedore_retired SET retired_at = NOW WHERE trunk IN (SELECT t FROM ROWS AS f)',
      [],
      trunks,
    );
  }

  /**
   * The 16 bytes of a key as the tables have them. In a map whose keys are spread, the random half
   * is first, so that a database that keeps ranges of keys on different nodes does not write all new
   * ones to the same node.
   */
  #stored(key: Uint8Array): Buffer {
    const bytes = Buffer.from(key.buffer, key.byteOffset, key.length);
    return this.spreads ? Buffer.concat([bytes.subarray(8), bytes.subarray(0, 8)]) : bytes;
  }

  #keyOf(row: Row): Buffer {
    return this.#stored(bytesOf(row.file_key));
  }
}

export type DeploymentMap = Pick<SqlMap, keyof SqlMap>;

function keyList(keys: readonly Buffer[]): List {
  return { columns: { k: 'bytes' }, rows: keys.map((key) => [key]) };
}

function bytesOf(value: unknown): Buffer {
  if (Buffer.isBuffer(value)) return value;
  throw new TypeError('a column of the map has no bytes');
}

function mapped(row: Row): MappedFile {
  return {
    trunkFileId: String(row.file_id ?? ''),
    isThin: Boolean(row.thin),
    offset: Number(row.position),
    size: Number(row.size),
    crc32: Number(row.crc32),
    about: String(row.about),
    expiresAt: row.expires_at === null ? null : Number(row.expires_at),
  };
}

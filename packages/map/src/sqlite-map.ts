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
import { type Row, SqliteGateways } from './sqlite-gateways.js';

/**
 * A map in one SQLite file, for several processes of one host, or in memory for tests. All
 * times are those of the host's clock.
 */

export class SqliteMap extends SqliteGateways implements DeploymentMap {
  async place({ id, fileId, isThin }: Trunk, files: readonly PlacedFile[]): Promise<void> {
    const thin = isThin === undefined ? null : Number(isThin);
    this.together(() => {
      this.run(
        `INSERT INTO stevedore_trunk (trunk, file_id, whole, thin) VALUES (?, ?, ?, coalesce(?, 0))
          ON CONFLICT (trunk) DO UPDATE SET file_id = excluded.file_id,
            thin = coalesce(?, thin), whole = coalesce(excluded.whole, whole)`,
        ...[id, fileId, wholeOf(files) ?? null, thin, thin],
      );
      for (const { key, offset, size, crc32, about, expiresAt } of files) {
        const removed = 'UPDATE stevedore_removal SET trunk = ? WHERE file_key = ?';
        if (this.run(removed, id, key) > 0) continue;
        this.run(
          `INSERT INTO stevedore_file
            (file_key, trunk, position, size, crc32, about, expires_at)
            VALUES (?, ?, ?, ?, ?, ?, ?)
            ON CONFLICT (file_key) DO UPDATE SET trunk = excluded.trunk,
              position = excluded.position, size = excluded.size, crc32 = excluded.crc32,
              about = excluded.about, expires_at = excluded.expires_at
              WHERE instr(stevedore_file.about, ?) = 0`,
          ...[key, id, offset, size, crc32, about, expiresAt, fileId],
        );
      }
    });
  }

  async retire(trunk: Uint8Array): Promise<void> {
    this.run('DELETE FROM stevedore_trunk WHERE trunk = ?', trunk);
  }

  async remove(files: readonly RemovedFile[], isSettled: boolean): Promise<void> {
    this.together(() => {
      for (const { key, trunk } of files) {
        const placed = this.get('SELECT trunk FROM stevedore_file WHERE file_key = ?', key);
        this.run('DELETE FROM stevedore_file WHERE file_key = ?', key);
        this.run(
          `INSERT INTO stevedore_removal (file_key, origin, trunk, removed_at, settled)
            VALUES (?, ?, ?, ?, ?)
            ON CONFLICT (file_key) DO UPDATE SET settled = max(settled, excluded.settled),
              trunk = coalesce(excluded.trunk, trunk)`,
          ...[key, originOf(key), trunk ?? placed?.trunk ?? null, this.clock(), isSettled ? 1 : 0],
        );
      }
    });
  }

  async find(keys: readonly Uint8Array[]): Promise<(MappedFile | 'removed' | undefined)[]> {
    return keys.map((key) => {
      if (this.get('SELECT 1 FROM stevedore_removal WHERE file_key = ?', key)) return 'removed';
      const row = this.get(
        `SELECT file_id, thin, position, size, crc32, about, expires_at FROM stevedore_file
          JOIN stevedore_trunk USING (trunk) WHERE file_key = ?`,
        key,
      );
      return row && mapped(row);
    });
  }

  async removalsAfter({ removedAt, key }: Removal, limit: number): Promise<Removal[]> {
    const rows = this.all(
      `SELECT file_key, removed_at FROM stevedore_removal
        WHERE (removed_at, file_key) > (?, ?) ORDER BY removed_at, file_key LIMIT ?`,
      ...[removedAt, key, limit],
    );
    return rows.map((row) => ({
      key: row.file_key as Buffer,
      removedAt: row.removed_at as number,
    }));
  }

  async removalsFor(origins: readonly number[], limit: number): Promise<Uint8Array[]> {
    const statement =
      'SELECT file_key FROM stevedore_removal WHERE origin = ? AND NOT settled LIMIT ?';
    const rows = origins.flatMap((origin) => this.all(statement, origin, limit));
    return rows.slice(0, limit).map((row) => row.file_key as Buffer);
  }

  async removalsOf(origin: number, after: Uint8Array, limit: number): Promise<Uint8Array[]> {
    const rows = this.all(
      `SELECT file_key FROM stevedore_removal WHERE origin = ? AND file_key > ?
        ORDER BY file_key LIMIT ?`,
      ...[origin, after, limit],
    );
    return rows.map((row) => row.file_key as Buffer);
  }

  async trunks(after: Uint8Array, limit: number, origin?: number): Promise<ListedTrunk[]> {
    const two = Buffer.alloc(2);
    two.writeUInt16BE(origin ?? 0);
    const rows = this.all(
      `SELECT t.trunk, t.file_id, t.thin, t.whole, f.file_key, f.position, f.size, f.crc32, f.about,
          f.expires_at
        FROM stevedore_trunk t
          LEFT JOIN stevedore_file f ON f.file_key = t.whole AND f.trunk = t.trunk
            AND NOT EXISTS (SELECT 1 FROM stevedore_removal r WHERE r.file_key = t.whole)
        WHERE t.trunk > ? AND (? OR substr(t.trunk, 7, 2) = ?) ORDER BY t.trunk LIMIT ?`,
      ...[after, origin === undefined ? 1 : 0, two, limit],
    );
    return rows.map((row) => ({
      id: row.trunk as Buffer,
      fileId: row.file_id as string,
      isWhole: row.whole !== null,
      file: row.file_key === null ? undefined : { ...mapped(row), key: row.file_key as Buffer },
    }));
  }

  async files(after: Uint8Array | undefined, limit: number): Promise<ListedFile[]> {
    const rows = this.all(
      `SELECT f.*, t.file_id, t.thin FROM stevedore_file f LEFT JOIN stevedore_trunk t USING (trunk)
        WHERE f.file_key > ? ORDER BY f.file_key LIMIT ?`,
      ...[after ?? Buffer.alloc(0), limit],
    );
    return rows.map((row) => ({
      ...mapped(row),
      key: row.file_key as Buffer,
      trunk: row.trunk as Buffer,
    }));
  }

  async displace(trunk: Uint8Array, keys: readonly Uint8Array[]): Promise<void> {
    this.together(() => {
      for (const key of keys) {
        this.run('DELETE FROM stevedore_file WHERE file_key = ? AND trunk = ?', key, trunk);
      }
    });
  }

  async prune(before: number, after: Removal, limit: number): Promise<Removal | undefined> {
    const hasMore = this.pruneCounts(limit);
    const old = (await this.removalsAfter(after, limit)).filter(
      ({ removedAt }) => removedAt < before,
    );
    const silent = this.clock() - IN_USE_MS;
    this.together(() => {
      for (const { key } of old) {
        this.run(
          `DELETE FROM stevedore_removal WHERE file_key = ? AND settled
            AND NOT EXISTS (SELECT 1 FROM stevedore_trunk t WHERE t.trunk = stevedore_removal.trunk)
            AND origin NOT IN (
              SELECT origin FROM stevedore_gateway WHERE seen_at < ? AND adopted_at IS NULL)`,
          ...[key, silent],
        );
      }
    });
    return hasMore || old.length >= limit ? (old.at(-1) ?? after) : undefined;
  }
}

function mapped(row: Row): MappedFile {
  return {
    trunkFileId: (row.file_id ?? '') as string,
    isThin: row.thin === 1,
    offset: row.position as number,
    size: row.size as number,
    crc32: row.crc32 as number,
    about: row.about as string,
    expiresAt: row.expires_at as number | null,
  };
}

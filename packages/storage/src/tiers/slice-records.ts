import type { SqliteDatabase, SqliteStatement } from '@stevedore/disk/sqlite';
import type { SliceEntry } from '@stevedore/protocol';
import type { RecordCounts } from './records.js';

/**
 * Slices of trunks as rows beside the records of files. They are copies: nothing is lost
 * with them, so no change here waits for a commit.
 */

/** A slice by its trunk, `3F/A2/base`, and its offset there. */
export type SlicePlace = [trunk: string, offset: number];

export interface SliceRow extends SliceEntry {
  readonly heat: number;
}

export class SliceRecords {
  readonly #change: (make: () => void) => void;
  readonly #find: SqliteStatement<SlicePlace, SliceRow>;
  readonly #bytes: SqliteStatement<SlicePlace, { bytes: Buffer }>;
  readonly #put: SqliteStatement<[...SlicePlace, number, number, number, Buffer]>;
  readonly #setHeat: SqliteStatement<[number, ...SlicePlace]>;
  readonly #remove: SqliteStatement<SlicePlace>;
  readonly #ofTrunk: SqliteStatement<[string], { offset: number }>;
  readonly #coldest: SqliteStatement<[], SliceRow & { trunk: string }>;
  readonly #counts: { files: number; bytes: number };

  /** `change` puts a change into the transaction that waits for a commit, if there can be one. */
  constructor(db: SqliteDatabase, change: (make: () => void) => void) {
    const columns = 'position AS offset, size, crc32, heat';
    const one = 'WHERE trunk = ? AND position = ?';
    this.#change = change;
    this.#find = db.prepare(`SELECT ${columns} FROM slices ${one}`);
    this.#bytes = db.prepare(`SELECT bytes FROM slices ${one}`);
    this.#put = db.prepare('INSERT INTO slices VALUES (?, ?, ?, ?, ?, ?)');
    this.#setHeat = db.prepare(`UPDATE slices SET heat = ? ${one}`);
    this.#remove = db.prepare(`DELETE FROM slices ${one}`);
    this.#ofTrunk = db.prepare('SELECT position AS offset FROM slices WHERE trunk = ?');
    this.#coldest = db.prepare(`SELECT trunk, ${columns} FROM slices ORDER BY heat LIMIT 1`);
    const sums = 'SELECT count(*) AS files, ifnull(sum(size), 0) AS bytes FROM slices';
    this.#counts = db.prepare<[], { files: number; bytes: number }>(sums).get()!;
  }

  get counts(): RecordCounts {
    return this.#counts;
  }

  find(...place: SlicePlace): SliceRow | undefined {
    return this.#find.get(...place);
  }

  bytes(...place: SlicePlace): Buffer | undefined {
    return this.#bytes.get(...place)?.bytes;
  }

  /** Makes a row, or makes it anew. */
  put(trunk: string, { offset, size, crc32, heat }: SliceRow, bytes: Buffer): void {
    this.remove(trunk, offset);
    this.#change(() => {
      this.#put.run(trunk, offset, size, crc32, heat, bytes);
      this.#count(1, size);
    });
  }

  setHeat(place: SlicePlace, heat: number): void {
    this.#change(() => this.#setHeat.run(heat, ...place));
  }

  remove(...place: SlicePlace): void {
    const row = this.find(...place);
    if (!row) return;
    this.#change(() => {
      this.#remove.run(...place);
      this.#count(-1, -row.size);
    });
  }

  removeTrunk(trunk: string): void {
    for (const { offset } of this.#ofTrunk.all(trunk)) this.remove(trunk, offset);
  }

  /** The one that is asked for least. */
  coldest(): (SliceRow & { readonly trunk: string }) | undefined {
    return this.#coldest.get();
  }

  #count(files: number, bytes: number): void {
    this.#counts.files += files;
    this.#counts.bytes += bytes;
  }
}

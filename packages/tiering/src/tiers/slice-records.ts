import type { SqliteDatabase, SqliteStatement } from '@stevedore/disk/sqlite';
import type { SliceEntry } from '@stevedore/protocol';

/**
 * Slices of trunks as rows beside the records of files. They are copies: nothing is lost
 * with them, so no change here waits for a commit.
 */

export interface SliceRow extends SliceEntry {
  /** Of the trunk, `3F/A2/base`. */
  readonly trunk: string;
  readonly heat: number;
}

const COLUMNS = 'trunk, position AS offset, size, crc32, heat';
const ONE = 'WHERE trunk = ? AND position = ?';

export class SliceRecords {
  readonly find: SqliteStatement<[string, number], SliceRow>;
  readonly bytes: SqliteStatement<[string, number], { bytes: Buffer }>;
  /** The one that is asked for least. */
  readonly coldest: SqliteStatement<[], SliceRow>;
  readonly counts: { files: number; bytes: number };
  readonly #change: (make: () => void) => void;
  readonly #put: SqliteStatement<[SliceRow & { readonly bytes: Buffer }]>;
  readonly #setHeat: SqliteStatement<[number, string, number]>;
  readonly #remove: SqliteStatement<[string, number, number], { size: number }>;

  /** `change` puts a change into the transaction that waits for a commit, if there can be one. */
  constructor(db: SqliteDatabase, change: (make: () => void) => void) {
    this.#change = change;
    this.find = db.prepare(`SELECT ${COLUMNS} FROM slices ${ONE}`);
    this.bytes = db.prepare(`SELECT bytes FROM slices ${ONE}`);
    this.coldest = db.prepare(`SELECT ${COLUMNS} FROM slices ORDER BY heat LIMIT 1`);
    this.#put = db.prepare(
      'INSERT INTO slices VALUES (@trunk, @offset, @size, @crc32, @heat, @bytes)',
    );
    this.#setHeat = db.prepare(`UPDATE slices SET heat = ? ${ONE}`);
    this.#remove = db.prepare(
      'DELETE FROM slices WHERE trunk = ? AND position BETWEEN ? AND ? RETURNING size',
    );
    const sums = 'SELECT count(*) AS files, ifnull(sum(size), 0) AS bytes FROM slices';
    this.counts = db.prepare<[], { files: number; bytes: number }>(sums).get()!;
  }

  /** Makes a row, or makes it anew. */
  put(row: SliceRow, bytes: Buffer): void {
    this.remove(row.trunk, row.offset);
    this.#change(() => {
      this.#put.run({ ...row, bytes });
      this.counts.files += 1;
      this.counts.bytes += row.size;
    });
  }

  setHeat({ trunk, offset }: SliceRow, heat: number): void {
    this.#change(() => this.#setHeat.run(heat, trunk, offset));
  }

  /** Removes the rows that begin there, or from there to `last`. */
  remove(trunk: string, offset: number, last = offset): void {
    this.#change(() => {
      for (const { size } of this.#remove.all(trunk, offset, last)) {
        this.counts.files -= 1;
        this.counts.bytes -= size;
      }
    });
  }
}

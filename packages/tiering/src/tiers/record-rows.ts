import type { SqliteDatabase, SqliteStatement } from '@stevedore/disk/sqlite';
import type { SliceEntry } from '@stevedore/protocol';

/** The numbers and tables of the metadata tier; FORMAT.md describes them. */

/** Where the bytes of a file are. */
export const Place = {
  /** In its row. */
  row: 0,
  /** In a file of the store path. */
  file: 1,
  /** Under a FastDFS id in another group. */
  remote: 2,
} as const;
export type Place = (typeof Place)[keyof typeof Place];

/**
 * Most unwanted copies, and most copies without a known result. While either is reached, no file
 * leaves.
 */
export const MAX_UNWANTED = 100_000;
export const MAX_OPEN_COPIES = 1000;

/** Heat is written only if it has grown by this: less is not worth a write. */
export const LEAST_HEATING = 0.1;

/** The tables of the records; FORMAT.md says what is in them. */

const TABLES = `
  CREATE TABLE files (
    name TEXT PRIMARY KEY,
    place INTEGER NOT NULL,
    size INTEGER NOT NULL,
    mtime INTEGER NOT NULL,
    crc32 INTEGER NOT NULL,
    moves INTEGER NOT NULL DEFAULT 0,
    moving INTEGER NOT NULL DEFAULT 0,
    heat REAL NOT NULL DEFAULT 0,
    remote TEXT,
    metadata BLOB,
    bytes BLOB
  );
  CREATE INDEX files_by_heat ON files (place, heat);
  CREATE INDEX files_moving ON files (name) WHERE moving = 1;
  CREATE UNIQUE INDEX files_remote ON files (remote) WHERE remote IS NOT NULL;

  CREATE TABLE owner (id BLOB NOT NULL);
  INSERT INTO owner VALUES (randomblob(8));
  CREATE TABLE copies (
    id INTEGER PRIMARY KEY,
    target TEXT NOT NULL,
    size INTEGER NOT NULL,
    crc32 INTEGER NOT NULL,
    since INTEGER NOT NULL
  );
  CREATE TABLE unwanted (remote TEXT PRIMARY KEY, since INTEGER NOT NULL) WITHOUT ROWID;

  CREATE TABLE slices (
    trunk TEXT NOT NULL,
    position INTEGER NOT NULL,
    size INTEGER NOT NULL,
    crc32 INTEGER NOT NULL,
    heat REAL NOT NULL,
    bytes BLOB NOT NULL,
    PRIMARY KEY (trunk, position)
  );
  CREATE INDEX slices_by_heat ON slices (heat);
`;

export const RECORDS_SCHEMA: readonly string[] = [TABLES];

/** A record, as an object and as a row of the table of files. */

export interface FileRecord {
  /** `3F/A2/base`. */
  readonly name: string;
  readonly place: Place;
  readonly size: number;
  readonly mtimeSeconds: number;
  /** Of the bytes while they are in the row or in another group; otherwise 0. */
  readonly crc32: number;
  /** How often the bytes have moved. */
  readonly moves: number;
  /** True during a move, and after a crash during one. */
  readonly moving: boolean;
  /** How often the file is accessed; see `heated` of @stevedore/balance. */
  readonly heat: number;
  /** The FastDFS id of the bytes, `group/name`, while they are in another group. */
  readonly remote?: string | undefined;
}

export interface Row {
  readonly name: string;
  readonly place: number;
  readonly size: number;
  readonly mtime: number;
  readonly crc32: number;
  readonly moves: number;
  readonly moving: number;
  readonly heat: number;
  readonly remote: string | null;
}

/** Columns of a record; bytes and metadata are separate. */
export const COLUMNS = 'name, place, size, mtime, crc32, moves, moving, heat, remote';

/** Called for every read: naming the fields is faster than rest and spread. */
export function recordOf(row: Row): FileRecord {
  return {
    name: row.name,
    place: row.place as Place,
    size: row.size,
    mtimeSeconds: row.mtime,
    crc32: row.crc32,
    moves: row.moves,
    moving: row.moving === 1,
    heat: row.heat,
    remote: row.remote ?? undefined,
  };
}

/** The inverse of `recordOf`. */
export function rowOf({ mtimeSeconds, remote, moving, ...entry }: FileRecord): Row {
  return { ...entry, mtime: mtimeSeconds, moving: moving ? 1 : 0, remote: remote ?? null };
}

export interface OpenCopy {
  readonly id: number;
  readonly target: string;
  readonly size: number;
  readonly crc32: number;
  readonly sinceSeconds: number;
}

/** Slices of trunks as rows. They are copies, so no change here waits for a commit. */

export interface SliceRow extends SliceEntry {
  /** The trunk, `3F/A2/base`. */
  readonly trunk: string;
  readonly heat: number;
}

const SLICE_COLUMNS = 'trunk, position AS offset, size, crc32, heat';
const ONE = 'WHERE trunk = ? AND position = ?';

export class SliceRecords {
  readonly find: SqliteStatement<[string, number], SliceRow>;
  readonly bytes: SqliteStatement<[string, number], { bytes: Buffer }>;
  readonly coldest: SqliteStatement<[], SliceRow>;
  readonly counts: { files: number; bytes: number };
  readonly #change: (make: () => void) => void;
  readonly #put: SqliteStatement<[SliceRow & { readonly bytes: Buffer }]>;
  readonly #setHeat: SqliteStatement<[number, string, number]>;
  readonly #remove: SqliteStatement<[string, number, number], { size: number }>;

  /** `change` adds a change to the open transaction, if there can be one. */
  constructor(db: SqliteDatabase, change: (make: () => void) => void) {
    this.#change = change;
    this.find = db.prepare(`SELECT ${SLICE_COLUMNS} FROM slices ${ONE}`);
    this.bytes = db.prepare(`SELECT bytes FROM slices ${ONE}`);
    this.coldest = db.prepare(`SELECT ${SLICE_COLUMNS} FROM slices ORDER BY heat LIMIT 1`);
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

  /** Makes or replaces a row. */
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

  /** Removes the rows that start at the position, or from there to `last`. */
  remove(trunk: string, offset: number, last = offset): void {
    this.#change(() => {
      for (const { size } of this.#remove.all(trunk, offset, last)) {
        this.counts.files -= 1;
        this.counts.bytes -= size;
      }
    });
  }
}

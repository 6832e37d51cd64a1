import type { SqliteDatabase, SqliteStatement } from '@stevedore/disk/sqlite';
import type { SliceEntry } from '@stevedore/protocol';

/** Numbers of the metadata tier; FORMAT.md describes what is on the disk. */

/** Where the bytes of a file are. */
export const Place = {
  /** In its record. */
  row: 0,
  /** In a file of its own on the store path. */
  file: 1,
  /** At a FastDFS id in another group. */
  away: 2,
} as const;
export type Place = (typeof Place)[keyof typeof Place];

/**
 * Copies in other groups that are yet to be deleted, and copies that may or may not have
 * been stored; beyond these numbers no file leaves.
 */
export const MAX_UNWANTED = 100_000;
export const MAX_OPEN_COPIES = 1000;

/** A row that has become hotter is written down as such; less is not worth a write. */
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
    away TEXT,
    metadata BLOB,
    bytes BLOB
  );
  CREATE INDEX files_by_heat ON files (place, heat);
  CREATE INDEX files_moving ON files (name) WHERE moving = 1;
  CREATE UNIQUE INDEX files_away ON files (away) WHERE away IS NOT NULL;

  CREATE TABLE owner (id BLOB NOT NULL);
  INSERT INTO owner VALUES (randomblob(8));
  CREATE TABLE copies (
    id INTEGER PRIMARY KEY,
    target TEXT NOT NULL,
    size INTEGER NOT NULL,
    crc32 INTEGER NOT NULL,
    since INTEGER NOT NULL
  );
  CREATE TABLE unwanted (away TEXT PRIMARY KEY, since INTEGER NOT NULL) WITHOUT ROWID;

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

/** A record, and the row that it is in the table of files. */

export interface FileRecord {
  /** `3F/A2/base`. */
  readonly name: string;
  readonly place: Place;
  readonly size: number;
  readonly mtimeSeconds: number;
  /** Of the bytes while they are in the row or in another group; else 0. */
  readonly crc32: number;
  /** How often the bytes have moved. */
  readonly moves: number;
  /** True while a move is under way, or was when the storage ended. */
  readonly moving: boolean;
  /** How often it is asked for; see `heated` of @stevedore/balance. */
  readonly heat: number;
  /** The FastDFS id that the bytes are at, `group/name`, while they are in another group. */
  readonly away?: string | undefined;
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
  readonly away: string | null;
}

/** Of a record; its bytes and metadata are columns beside. */
export const COLUMNS = 'name, place, size, mtime, crc32, moves, moving, heat, away';

/** Part of every read: its fields are named, as a rest and a spread are slow. */
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
    away: row.away ?? undefined,
  };
}

/** What `recordOf` makes the record of again. */
export function rowOf({ mtimeSeconds, away, moving, ...entry }: FileRecord): Row {
  return { ...entry, mtime: mtimeSeconds, moving: moving ? 1 : 0, away: away ?? null };
}

export interface OpenCopy {
  readonly id: number;
  /** The group that it goes to. */
  readonly target: string;
  readonly size: number;
  readonly crc32: number;
  readonly sinceSeconds: number;
}

/**
 * Slices of trunks as rows beside the records of files. They are copies: nothing is lost
 * with them, so no change here waits for a commit.
 */

export interface SliceRow extends SliceEntry {
  /** Of the trunk, `3F/A2/base`. */
  readonly trunk: string;
  readonly heat: number;
}

const SLICE_COLUMNS = 'trunk, position AS offset, size, crc32, heat';
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

  /** Makes a row, or replaces it. */
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

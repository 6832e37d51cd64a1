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

import type { Place } from './constants.js';

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

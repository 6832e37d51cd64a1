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

export function recordOf({ mtime, away, moving, place, ...row }: Row): FileRecord {
  return {
    ...row,
    place: place as Place,
    mtimeSeconds: mtime,
    moving: moving === 1,
    away: away ?? undefined,
  };
}

/** What `recordOf` makes the record of again. */
export function rowOf({ mtimeSeconds, away, moving, ...entry }: FileRecord): Row {
  return { ...entry, mtime: mtimeSeconds, moving: moving ? 1 : 0, away: away ?? null };
}

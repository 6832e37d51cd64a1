import { decodeChecks, encodeChecks, type Layout } from '../io-tier/layout.js';
import type { Place } from './constants.js';

/** A record, and the row that it is in the table of files. */

export interface FileRecord {
  /** `3F/A2/base`. */
  readonly name: string;
  readonly place: Place;
  readonly size: number;
  readonly mtimeSeconds: number;
  /** Of the bytes while they are in the row or with another metadata server; of the stripes' checks at I/O servers; else 0. */
  readonly crc32: number;
  /** How often the bytes have moved. */
  readonly moves: number;
  /** True while a move is under way, or was when the storage ended. */
  readonly moving: boolean;
  /** Where the bytes are while they are at I/O servers. */
  readonly layout?: Layout | undefined;
  /** Where they are while another metadata server has them; see guest-name.ts. */
  readonly guest?: string | undefined;
}

export interface Row {
  readonly name: string;
  readonly place: number;
  readonly size: number;
  readonly mtime: number;
  readonly crc32: number;
  readonly moves: number;
  readonly moving: number;
  readonly handle: Buffer | null;
  readonly stripe: number | null;
  readonly servers: Buffer | null;
  readonly checks: Buffer | null;
  readonly guest: string | null;
}

/** Of a record; its bytes and metadata are columns beside. */
export const COLUMNS =
  'name, place, size, mtime, crc32, moves, moving, handle, stripe, servers, checks, guest';

export function hex(text: string): Buffer {
  return Buffer.from(text, 'hex');
}

const ID_BYTES = 8;

function layoutOf({ handle, stripe, servers, checks }: Row): Layout | undefined {
  if (!handle || stripe === null || !servers || !checks) return undefined;
  const ids: string[] = [];
  for (let at = 0; at < servers.length; at += ID_BYTES) {
    ids.push(servers.toString('hex', at, at + ID_BYTES));
  }
  const layout = { handle: handle.toString('hex'), stripeBytes: stripe, servers: ids };
  return { ...layout, checks: decodeChecks(checks) };
}

export function record(row: Row): FileRecord {
  return {
    name: row.name,
    place: row.place as Place,
    size: row.size,
    mtimeSeconds: row.mtime,
    crc32: row.crc32,
    moves: row.moves,
    moving: row.moving === 1,
    layout: layoutOf(row),
    guest: row.guest ?? undefined,
  };
}

/** What `record` makes the record of again. */
export function rowOf(entry: FileRecord): Row {
  const { layout } = entry;
  return {
    name: entry.name,
    place: entry.place,
    size: entry.size,
    mtime: entry.mtimeSeconds,
    crc32: entry.crc32,
    moves: entry.moves,
    moving: entry.moving ? 1 : 0,
    handle: layout ? hex(layout.handle) : null,
    stripe: layout?.stripeBytes ?? null,
    servers: layout ? Buffer.concat(layout.servers.map(hex)) : null,
    checks: layout ? encodeChecks(layout.checks) : null,
    guest: entry.guest ?? null,
  };
}

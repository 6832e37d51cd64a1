import { setImmediate as nextTurn } from 'node:timers/promises';
import { type FileRow, formatKey, type ReadableStaging, StoreError } from '@stevedore/staging';
import { invalidOption } from './options.js';
import type { FileInfo, FilePage, ListOptions } from './types.js';

/**
 * Lists files page by page, in the order of their keys, which is that of their uploads to the
 * millisecond, or in its reverse. A page examines a bounded number of files, so it may be short or empty and still
 * have a cursor.
 */

/** Rows examined for one page. */
const MAX_EXAMINED = 20_000;
/** Rows read at a time; other work runs in between. */
const ROWS_AT_ONCE = 500;
const DEFAULT_LIMIT = 1_000;
const MAX_LIMIT = 10_000;
const KEY_BYTES = 16;
const MAX_TIME_MS = 2 ** 48 - 1;
/** Sort before and after all keys. */
const FIRST_KEY = Buffer.alloc(0);
const LAST_KEY = Buffer.alloc(KEY_BYTES + 1, 0xff);

interface Listing {
  readonly group: string | undefined;
  readonly order: ListOrder;
  /** The listing begins after this key, in its order. */
  readonly after: Buffer;
  /** It ends before this key, in its order. */
  readonly end: Buffer;
  readonly limit: number;
  readonly matches: (row: FileRow) => boolean;
}

/** Throws `invalid_option`. Files that have expired at `now` are not listed. */
function listingOf(options: ListOptions, now: number): Listing {
  const {
    group,
    namePrefix = '',
    nameContains = '',
    type,
    since,
    until,
    minSize = 0,
    maxSize = Number.POSITIVE_INFINITY,
  } = options;
  const limit = limitOf(options);
  const wanted = typeTest(type);
  const prefix = namePrefix.toWellFormed();
  const part = nameContains.toWellFormed().toLowerCase();
  const order = orderOf(options);
  const earliest = since ? behindTime(since.getTime(), 'since') : FIRST_KEY;
  const latest = until ? behindTime(until.getTime(), 'until') : LAST_KEY;
  const [begins, end] = order.isReversed ? [latest, earliest] : [earliest, latest];
  const after = options.after === undefined ? begins : cursorKey(options.after);
  return {
    group: group?.toWellFormed(),
    order,
    after: order.compare(after, begins) < 0 ? begins : after,
    end,
    limit,
    matches: ({ name, type: own, size, expiresAt }) =>
      name.startsWith(prefix) &&
      name.toLowerCase().includes(part) &&
      wanted(own) &&
      size >= minSize &&
      size <= maxSize &&
      (expiresAt === undefined || expiresAt > now),
  };
}

/** The direction of a listing. */
export interface ListOrder {
  readonly isReversed: boolean;
  readonly compare: (a: Uint8Array, b: Uint8Array) => number;
  /** Sorts before all keys. */
  readonly first: Buffer;
}

/** Throws `invalid_option`. */
export function orderOf({ order = 'oldest' }: ListOptions): ListOrder {
  if (order === 'oldest') return { isReversed: false, compare: Buffer.compare, first: FIRST_KEY };
  if (order !== 'newest') throw invalidOption('order: oldest or newest is needed');
  return { isReversed: true, compare: (a, b) => Buffer.compare(b, a), first: LAST_KEY };
}

/** Throws `invalid_option`. */
export function limitOf({ limit = DEFAULT_LIMIT }: ListOptions): number {
  if (Number.isSafeInteger(limit) && limit >= 1 && limit <= MAX_LIMIT) return limit;
  throw invalidOption(`limit: a whole number from 1 to ${MAX_LIMIT} is needed`);
}

/** `image/png`, or `image/*`. */
function typeTest(type: string | undefined): (own: string) => boolean {
  if (type === undefined) return () => true;
  const wanted = type.toLowerCase();
  if (wanted.endsWith('/*')) return (own) => own.toLowerCase().startsWith(wanted.slice(0, -1));
  // Ignores parameters, such as a charset.
  return (own) => own.toLowerCase().split(';')[0]!.trim() === wanted;
}

/** Sorts before all keys of that millisecond and after those of earlier ones. */
function behindTime(time: number, name: string): Buffer {
  if (Number.isNaN(time)) throw invalidOption(`${name}: no valid date`);
  const key = Buffer.alloc(6);
  key.writeUIntBE(Math.min(Math.max(0, Math.ceil(time)), MAX_TIME_MS), 0, 6);
  return key;
}

function cursorKey(text: string): Buffer {
  const key = /^[\w-]{22}$/.test(text) ? Buffer.from(text, 'base64url') : undefined;
  if (key?.length === KEY_BYTES) return key;
  throw invalidOption('after: give the cursor that the page before this one had as `next`');
}

export interface ListSources {
  /** The store itself, and the other processes of this machine. */
  readonly all: readonly Pick<ReadableStaging, 'fileMap' | 'rebuild'>[];
  readonly now: () => number;
  /** Deleted by another server. */
  readonly isRemoved: (key: Buffer) => boolean;
  readonly factsOf: (row: FileRow) => FileInfo;
}

/** Rejects with `invalid_option`, and with `storage_unavailable` while a FileMap is rebuilt. */
export async function listFiles(options: ListOptions, sources: ListSources): Promise<FilePage> {
  const { all, now, isRemoved, factsOf } = sources;
  const listing = listingOf(options, now());
  if (!all.every(({ rebuild }) => rebuild.isComplete)) {
    const message = 'the FileMap is being rebuilt, so a listing would lack files; try again later';
    throw new StoreError('storage_unavailable', message, { retryable: true });
  }
  const files: FileInfo[] = [];
  let { after } = listing;
  for (let examined = 0; examined < MAX_EXAMINED; ) {
    const rows = rowsBehind(sources, listing, after);
    for (const row of rows) {
      if (listing.order.compare(row.key, listing.end) > 0) return { files };
      if (files.length === listing.limit) return { files, next: formatKey(after) };
      after = row.key;
      if (!isRemoved(row.key) && listing.matches(row)) files.push(factsOf(row));
    }
    if (rows.length < ROWS_AT_ONCE) return { files };
    examined += rows.length;
    await nextTurn();
  }
  return { files, next: formatKey(after) };
}

function rowsBehind(
  { all }: ListSources,
  { group, order }: Listing,
  after: Buffer,
): readonly FileRow[] {
  const rows = all.flatMap(({ fileMap }) => {
    if (group === undefined) {
      return fileMap[order.isReversed ? 'pageBefore' : 'page'](after, ROWS_AT_ONCE);
    }
    const name = order.isReversed ? 'pageOfGroupBefore' : 'pageOfGroup';
    return fileMap[name](group, after, ROWS_AT_ONCE);
  });
  if (all.length > 1) rows.sort((a, b) => order.compare(a.key, b.key));
  return rows.slice(0, ROWS_AT_ONCE);
}

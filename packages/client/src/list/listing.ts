import { setImmediate as nextTurn } from 'node:timers/promises';
import { type FileRow, formatKey, type ReadableStaging, StoreError } from '@stevedore/staging';
import { invalidOption } from '../options.js';
import type { FileInfo, FilePage, ListOptions } from '../store/types.js';
import { composed, folded } from './texts.js';

/**
 * Lists files page by page, in the order of their keys, which is that of their uploads to the
 * millisecond, or from the newest on. A page examines a bounded number of files, so it may be short or empty and still
 * have a cursor.
 */

type Order = NonNullable<ListOptions['order']>;

/** Rows examined for one page. */
export const MAX_EXAMINED = 20_000;
/** Rows read at a time; other work runs in between. */
export const ROWS_AT_ONCE = 500;
const DEFAULT_LIMIT = 1_000;
const MAX_LIMIT = 10_000;
const KEY_BYTES = 16;
const MAX_TIME_MS = 2 ** 48 - 1;
/** Sorts before all keys, and after all. */
const FIRST = Buffer.alloc(0);
export const LAST = Buffer.alloc(KEY_BYTES + 1, 0xff);

interface Range {
  /** Of files that are not derived. */
  readonly group: string | undefined;
  readonly order: Order;
  /** The listing begins behind this key, in its order. */
  readonly from: Buffer;
  /** It ends before this key. */
  readonly to: Buffer;
  readonly limit: number;
  readonly matches: (row: FileRow) => boolean;
}

/** Throws `invalid_option`. Files that have expired at `now` are not listed. */
function rangeOf(options: ListOptions, now: number): Range {
  const {
    group,
    namePrefix = '',
    nameContains = '',
    type,
    since,
    until,
    minSize = 0,
    maxSize = Number.POSITIVE_INFINITY,
    derived = false,
  } = options;
  const order = orderOf(options);
  const limit = limitOf(options);
  const wanted = typeTest(type);
  const prefix = composed(namePrefix);
  const part = folded(nameContains);
  const oldest = since ? behindTime(since.getTime(), 'since') : FIRST;
  const newest = until ? behindTime(until.getTime(), 'until') : LAST;
  const [begin, to] = order === 'oldest' ? [oldest, newest] : [newest, oldest];
  const after = options.after === undefined ? begin : cursorKey(options.after);
  const named = group?.toWellFormed();
  return {
    group: derived ? undefined : named,
    order,
    from: inOrder(order)(after, begin) < 0 ? begin : after,
    to,
    limit,
    matches: ({ name, type: own, size, expiresAt, pictureOf, group: itsGroup }) =>
      (derived || pictureOf === undefined) &&
      (named === undefined || itsGroup === named) &&
      (prefix === '' || composed(name).startsWith(prefix)) &&
      (part === '' || folded(name).includes(part)) &&
      wanted(own) &&
      size >= minSize &&
      size <= maxSize &&
      (expiresAt === undefined || expiresAt > now),
  };
}

/** Throws `invalid_option`. */
export function limitOf({ limit = DEFAULT_LIMIT }: Pick<ListOptions, 'limit'>): number {
  if (Number.isSafeInteger(limit) && limit >= 1 && limit <= MAX_LIMIT) return limit;
  throw invalidOption(`limit: a whole number from 1 to ${MAX_LIMIT} is needed`);
}

/** Throws `invalid_option`. */
export function orderOf({ order = 'oldest' }: ListOptions): Order {
  if (order === 'oldest' || order === 'newest') return order;
  throw invalidOption('order: oldest or newest is needed');
}

/** Compares keys: the one that is listed first is the smaller. */
export function inOrder(order: Order): (one: Uint8Array, other: Uint8Array) => number {
  return order === 'oldest' ? Buffer.compare : (one, other) => Buffer.compare(other, one);
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
  readonly infoOf: (row: FileRow) => FileInfo;
}

/** Rejects with `invalid_option`, and with `storage_unavailable` while a FileMap is rebuilt. */
export async function listFiles(options: ListOptions, sources: ListSources): Promise<FilePage> {
  const { now, isRemoved, infoOf } = sources;
  const range = rangeOf(options, now());
  const compare = inOrder(range.order);
  demandComplete(sources);
  const files: FileInfo[] = [];
  let after = range.from;
  for (let examined = 0; examined < MAX_EXAMINED; ) {
    const rows = rowsBehind(sources, range, after);
    for (const row of rows) {
      if (compare(row.key, range.to) >= 0) return { files };
      if (files.length === range.limit) return { files, next: formatKey(after) };
      after = row.key;
      if (!isRemoved(row.key) && range.matches(row)) files.push(infoOf(row));
    }
    if (rows.length < ROWS_AT_ONCE) return { files };
    examined += rows.length;
    await nextTurn();
  }
  return { files, next: formatKey(after) };
}

/** Throws `storage_unavailable`. */
export function demandComplete({ all }: Pick<ListSources, 'all'>): void {
  if (all.every(({ rebuild }) => rebuild.isComplete)) return;
  const message = 'the FileMap is being rebuilt, so a listing would lack files; try again later';
  throw new StoreError('storage_unavailable', message);
}

function rowsBehind(
  { all }: ListSources,
  { group, order }: Range,
  after: Buffer,
): readonly FileRow[] {
  const isOldest = order === 'oldest';
  const rows = all.flatMap(({ fileMap }) => {
    if (group !== undefined) {
      const page = isOldest ? fileMap.pageOfGroup : fileMap.pageOfGroupBefore;
      return page(group, after, ROWS_AT_ONCE);
    }
    return (isOldest ? fileMap.page : fileMap.pageBefore)(after, ROWS_AT_ONCE);
  });
  const compare = inOrder(order);
  if (all.length > 1) rows.sort((a, b) => compare(a.key, b.key));
  return rows.slice(0, ROWS_AT_ONCE);
}

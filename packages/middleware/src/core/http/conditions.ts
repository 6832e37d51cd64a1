import type { IncomingHttpHeaders } from 'node:http';
import type { ByteRange } from '@stevedore/client';

/**
 * What a request asks for of a file that exists: all of it, a range, or nothing
 * because the client has it (RFC 9110, sections 13 and 14). Pure.
 */

export type Wanted =
  | { readonly kind: 'whole' }
  | { readonly kind: 'range'; readonly range: ByteRange }
  | { readonly kind: 'unsatisfiable' }
  | { readonly kind: 'not-modified' };

export interface Validators {
  /** Strong, with its quotes. */
  readonly etag: string;
  readonly modifiedAt: Date;
  /** Bytes. */
  readonly size: number;
}

const WHOLE: Wanted = { kind: 'whole' };
const UNSATISFIABLE: Wanted = { kind: 'unsatisfiable' };
const NOT_MODIFIED: Wanted = { kind: 'not-modified' };

export function wanted(headers: IncomingHttpHeaders, file: Validators): Wanted {
  const noneMatch = headers['if-none-match'];
  if (noneMatch !== undefined) {
    if (matchesTag(noneMatch, file.etag)) return NOT_MODIFIED;
  } else if (notModifiedSince(headers['if-modified-since'], file.modifiedAt)) {
    return NOT_MODIFIED;
  }
  const { range } = headers;
  if (range === undefined || !sameAsBefore(headers['if-range'], file)) return WHOLE;
  return parseRange(range, file.size);
}

/**
 * One range. Several, another unit or what is no range at all is ignored, as
 * the standard allows: the whole file is the answer then.
 */
export function parseRange(header: string, size: number): Wanted {
  const match = /^bytes=[ \t]*(\d{0,15})-(\d{0,15})[ \t]*$/i.exec(header);
  if (!match) return WHOLE;
  const [, first, last] = match;
  if (first === '') return last === '' ? WHOLE : suffix(Number(last), size);
  const start = Number(first);
  const end = last === '' ? size - 1 : Math.min(Number(last), size - 1);
  if (last !== '' && Number(last) < start) return WHOLE;
  return start < size ? { kind: 'range', range: { start, end } } : UNSATISFIABLE;
}

function suffix(length: number, size: number): Wanted {
  if (length === 0 || size === 0) return UNSATISFIABLE;
  return { kind: 'range', range: { start: Math.max(0, size - length), end: size - 1 } };
}

/** If-None-Match compares weakly. */
function matchesTag(header: string, etag: string): boolean {
  if (header.trim() === '*') return true;
  return header.split(',').some((tag) => tag.trim().replace(/^W\//, '') === etag);
}

function notModifiedSince(header: string | undefined, modifiedAt: Date): boolean {
  return header !== undefined && seconds(modifiedAt.getTime()) <= seconds(Date.parse(header));
}

/** If-Range: a range is only of use to who has the rest of these very bytes. */
function sameAsBefore(header: string | string[] | undefined, file: Validators): boolean {
  if (header === undefined) return true;
  const value = String(header).trim();
  if (value.startsWith('"')) return value === file.etag;
  return seconds(Date.parse(value)) === seconds(file.modifiedAt.getTime());
}

function seconds(milliseconds: number): number {
  return Math.floor(milliseconds / 1000);
}

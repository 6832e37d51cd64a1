import type { IncomingHttpHeaders } from 'node:http';
import type { ByteRange } from '@stevedore/client';

/**
 * Decides how much of an existing file answers a request: all, a range, or nothing because the
 * client has it already or its condition fails (RFC 9110, section 13, in the order of 13.2.2).
 * Pure.
 */

export type Wanted =
  | WantedRange
  | { readonly kind: 'not-modified' }
  | { readonly kind: 'precondition-failed' };

export interface Validators {
  /** Strong, with its quotes. */
  readonly etag: string;
  readonly modifiedAt: Date;
  /** Bytes. */
  readonly size: number;
  /** False for a file whose bytes may have changed again within that second. */
  readonly isDateStrong: boolean;
}

const NOT_MODIFIED: Wanted = { kind: 'not-modified' };
const PRECONDITION_FAILED: Wanted = { kind: 'precondition-failed' };

export function wanted(method: string, headers: IncomingHttpHeaders, file: Validators): Wanted {
  const match = headers['if-match'];
  if (match !== undefined) {
    if (!matchesTag(match, file.etag, 'strong')) return PRECONDITION_FAILED;
  } else if (modifiedSince(headers['if-unmodified-since'], file.modifiedAt)) {
    return PRECONDITION_FAILED;
  }
  const noneMatch = headers['if-none-match'];
  if (noneMatch !== undefined) {
    if (matchesTag(noneMatch, file.etag, 'weak')) return NOT_MODIFIED;
  } else if (notModifiedSince(headers['if-modified-since'], file.modifiedAt)) {
    return NOT_MODIFIED;
  }
  const { range } = headers;
  // A range applies to GET only.
  if (range === undefined || method !== 'GET' || !sameAsBefore(headers['if-range'], file)) {
    return WHOLE;
  }
  return parseRange(range, file.size);
}

/** If-None-Match compares weakly, If-Match strongly. */
function matchesTag(header: string, etag: string, comparison: 'weak' | 'strong'): boolean {
  if (header.trim() === '*') return true;
  return header.split(',').some((text) => {
    const tag = text.trim();
    return (comparison === 'weak' ? tag.replace(/^W\//, '') : tag) === etag;
  });
}

function notModifiedSince(header: string | undefined, modifiedAt: Date): boolean {
  return header !== undefined && seconds(modifiedAt.getTime()) <= seconds(parseDate(header));
}

/** An invalid date is ignored. */
function modifiedSince(header: string | undefined, modifiedAt: Date): boolean {
  return header !== undefined && seconds(modifiedAt.getTime()) > seconds(parseDate(header));
}

/** If-Range: a range helps only a client that has the rest of the same bytes. */
function sameAsBefore(header: string | string[] | undefined, file: Validators): boolean {
  if (header === undefined) return true;
  const value = String(header).trim();
  if (value.startsWith('"')) return value === file.etag;
  return file.isDateStrong && seconds(parseDate(value)) === seconds(file.modifiedAt.getTime());
}

const CLOCK = '\\d{2}:\\d{2}:\\d{2}';
/** The current format and the two obsolete ones; the last of them names no zone. */
const DATED = new RegExp(
  `^[A-Z][a-z]{2}, \\d{2} [A-Z][a-z]{2} \\d{4} ${CLOCK} GMT$|^[A-Z][a-z]+day, \\d{2}-[A-Z][a-z]{2}-\\d{2} ${CLOCK} GMT$`,
);
const ASCTIME = new RegExp(`^[A-Z][a-z]{2} [A-Z][a-z]{2} [ \\d]\\d ${CLOCK} \\d{4}$`);

/** An HTTP-date in Unix milliseconds (RFC 9110, section 5.6.7); NaN for anything else. */
function parseDate(text: string): number {
  if (DATED.test(text)) return Date.parse(text);
  return ASCTIME.test(text) ? Date.parse(`${text} GMT`) : Number.NaN;
}

function seconds(milliseconds: number): number {
  return Math.floor(milliseconds / 1000);
}

/**
 * The Range header (RFC 9110, section 14). Pure. A malformed header is ignored, as the standard
 * allows, and so is one with several ranges.
 */

export type WantedRange =
  | { readonly kind: 'whole' }
  | { readonly kind: 'range'; readonly range: ByteRange }
  | { readonly kind: 'unsatisfiable' };

const WHOLE: WantedRange = { kind: 'whole' };
const UNSATISFIABLE: WantedRange = { kind: 'unsatisfiable' };
/** Numbers of any length: `bytes=0-9223372036854775807` asks for all there is. */
const RANGE = /^bytes=[ \t]*(\d*)-(\d*)[ \t]*$/i;

function parseRange(header: string, size: number): WantedRange {
  const [, first = '', last = ''] = RANGE.exec(header) ?? [];
  if (first === '') {
    if (last === '') return WHOLE;
    const length = Number(last);
    if (length === 0 || size === 0) return UNSATISFIABLE;
    return { kind: 'range', range: { start: Math.max(0, size - length), end: size - 1 } };
  }
  const start = Number(first);
  if (last !== '' && Number(last) < start) return WHOLE;
  if (start >= size) return UNSATISFIABLE;
  const end = last === '' ? size - 1 : Math.min(Number(last), size - 1);
  return { kind: 'range', range: { start, end } };
}

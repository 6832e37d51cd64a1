import type { IncomingHttpHeaders } from 'node:http';
import { parseRanges, type WantedRanges } from './ranges.js';

/**
 * What a request asks for of a file that exists: all of it, pieces, or nothing
 * because the client has it or is mistaken about it (RFC 9110, section 13, in the
 * order of 13.2.2). Pure.
 */

export type Wanted =
  | WantedRanges
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

const WHOLE: Wanted = { kind: 'whole' };
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
  // Ranges are a thing of GET alone.
  if (range === undefined || method !== 'GET' || !sameAsBefore(headers['if-range'], file)) {
    return WHOLE;
  }
  return parseRanges(range, file.size);
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

/** What is no date is ignored. */
function modifiedSince(header: string | undefined, modifiedAt: Date): boolean {
  return header !== undefined && seconds(modifiedAt.getTime()) > seconds(parseDate(header));
}

/** If-Range: a range is only of use to who has the rest of these very bytes. */
function sameAsBefore(header: string | string[] | undefined, file: Validators): boolean {
  if (header === undefined) return true;
  const value = String(header).trim();
  if (value.startsWith('"')) return value === file.etag;
  return file.isDateStrong && seconds(parseDate(value)) === seconds(file.modifiedAt.getTime());
}

const CLOCK = '\\d{2}:\\d{2}:\\d{2}';
/** As it is written today, and in the two obsolete ways; the last of them names no zone. */
const DATED = new RegExp(
  `^[A-Z][a-z]{2}, \\d{2} [A-Z][a-z]{2} \\d{4} ${CLOCK} GMT$|^[A-Z][a-z]+day, \\d{2}-[A-Z][a-z]{2}-\\d{2} ${CLOCK} GMT$`,
);
const ASCTIME = new RegExp(`^[A-Z][a-z]{2} [A-Z][a-z]{2} [ \\d]\\d ${CLOCK} \\d{4}$`);

/** An HTTP-date in Unix milliseconds (RFC 9110, section 5.6.7); NaN for what is none. */
function parseDate(text: string): number {
  if (DATED.test(text)) return Date.parse(text);
  return ASCTIME.test(text) ? Date.parse(`${text} GMT`) : Number.NaN;
}

function seconds(milliseconds: number): number {
  return Math.floor(milliseconds / 1000);
}

import { randomBytes } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import type { ByteRange } from '@stevedore/client';
import type { ContentPart } from './paced-content.js';

/**
 * Decides how much of an existing file answers a request: all, ranges, or nothing because the
 * client has it already or its condition fails (RFC 9110, section 13, in the order of 13.2.2).
 * Pure.
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
  // Ranges apply to GET only.
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
 * The Range header (RFC 9110, section 14) and its answer. Pure. A malformed header is ignored, as
 * the standard allows, and so is one with too many ranges. Ranges that overlap or nearly touch are
 * merged: a short request never costs more than the whole file.
 */

export type WantedRanges =
  | { readonly kind: 'whole' }
  | { readonly kind: 'ranges'; readonly ranges: readonly ByteRange[] }
  | { readonly kind: 'unsatisfiable' };

/** A request for more ranges is answered with the whole file. */
export const MAX_RANGES = 8;
/** Ranges this close are merged: a boundary between them would be longer. */
const MERGE_GAP_BYTES = 128;

const WHOLE: WantedRanges = { kind: 'whole' };
const UNSATISFIABLE: WantedRanges = { kind: 'unsatisfiable' };
/** Numbers of any length: `bytes=0-9223372036854775807` asks for all there is. */
const SPEC = /^[ \t]*(\d*)-(\d*)[ \t]*$/;

function parseRanges(header: string, size: number): WantedRanges {
  if (!/^bytes=/i.test(header)) return WHOLE;
  // One more than allowed is enough to decide.
  const specs = header.slice('bytes='.length).split(',', MAX_RANGES + 1);
  if (specs.length > MAX_RANGES) return WHOLE;
  const ranges: ByteRange[] = [];
  for (const spec of specs) {
    // An empty list element means nothing.
    if (specs.length > 1 && spec.trim() === '') continue;
    const range = parseSpec(spec, size);
    if (range === 'malformed') return WHOLE;
    if (range !== 'outside') ranges.push(range);
  }
  return ranges.length === 0 ? UNSATISFIABLE : { kind: 'ranges', ranges: coalesce(ranges) };
}

function parseSpec(spec: string, size: number): ByteRange | 'malformed' | 'outside' {
  const match = SPEC.exec(spec);
  if (!match) return 'malformed';
  const [, first, last] = match;
  if (first === '') {
    if (last === '') return 'malformed';
    const length = Number(last);
    if (length === 0 || size === 0) return 'outside';
    return { start: Math.max(0, size - length), end: size - 1 };
  }
  const start = Number(first);
  if (last !== '' && Number(last) < start) return 'malformed';
  if (start >= size) return 'outside';
  return { start, end: last === '' ? size - 1 : Math.min(Number(last), size - 1) };
}

/** In the requested order, unless some overlap or nearly touch. */
function coalesce(ranges: readonly ByteRange[]): readonly ByteRange[] {
  if (ranges.length === 1) return ranges;
  const merged: ByteRange[] = [];
  for (const range of [...ranges].sort((a, b) => a.start - b.start)) {
    const last = merged.at(-1);
    if (last && range.start - last.end <= MERGE_GAP_BYTES) {
      merged[merged.length - 1] = { start: last.start, end: Math.max(last.end, range.end) };
    } else {
      merged.push(range);
    }
  }
  return merged.length === ranges.length ? ranges : merged;
}

/** Several ranges of a file as one `multipart/byteranges` body of known length. */

export interface MultiRange {
  readonly contentType: string;
  readonly length: number;
  readonly parts: readonly ContentPart[];
}

export function multiRange(
  fileBytes: number,
  ranges: readonly ByteRange[],
  type: string,
): MultiRange {
  const boundary = randomBytes(18).toString('base64url');
  const parts: ContentPart[] = [];
  let length = 0;
  const add = (part: ContentPart): void => {
    parts.push(part);
    length += Buffer.isBuffer(part) ? part.length : part.end - part.start + 1;
  };
  for (const [index, range] of ranges.entries()) {
    const head =
      `${index === 0 ? '' : '\r\n'}--${boundary}\r\nContent-Type: ${type}\r\n` +
      `Content-Range: bytes ${range.start}-${range.end}/${fileBytes}\r\n\r\n`;
    add(Buffer.from(head, 'latin1'));
    add(range);
  }
  add(Buffer.from(`\r\n--${boundary}--\r\n`, 'latin1'));
  return { contentType: `multipart/byteranges; boundary=${boundary}`, length, parts };
}

import { createHash } from 'node:crypto';
import { ProblemError, type Query } from '@stevedore/middleware/core';

/**
 * Which picture a query requests: `?w=320&h=240&fit=cover&format=webp`. Two that request the
 * same picture are the same variant. Pure.
 */

export const FITS = ['inside', 'cover', 'contain'] as const;
export type Fit = (typeof FITS)[number];
export const FORMATS = ['avif', 'webp', 'jpeg', 'png'] as const;
export type Format = (typeof FORMATS)[number];

export interface Variant {
  /** Pixels; undefined keeps the picture's shape. */
  readonly width: number | undefined;
  readonly height: number | undefined;
  /**
   * inside: no larger than the box, its own shape, never enlarged. cover: fills the box and is
   * cropped. contain: the whole picture in the box, with margins.
   */
  readonly fit: Fit;
  readonly format: Format;
}

/** The requested variant, and whether the answer depends on the header `Accept`. */
export interface AskedVariant extends Variant {
  readonly isNegotiated: boolean;
}

const PARAMETERS = ['w', 'h', 'fit', 'format'] as const;

/** Undefined if the query requests the file as it is. Throws `bad_request`. */
export function askedVariant(query: Query, accept: string | undefined): AskedVariant | undefined {
  if (PARAMETERS.every((name) => query[name] === undefined)) return undefined;
  const [width, height] = [sideOf(query, 'w'), sideOf(query, 'h')];
  const fit = oneOf(query, 'fit', FITS) ?? 'inside';
  const format = oneOf(query, 'format', FORMATS);
  if (fit !== 'inside' && (width === undefined || height === undefined)) {
    throw new ProblemError('bad_request', `fit=${fit} needs both w and h.`);
  }
  const negotiated = format ?? acceptedFormat(accept);
  return { width, height, fit, format: negotiated, isNegotiated: format === undefined };
}

function sideOf(query: Query, name: string): number | undefined {
  const text = query[name] || undefined;
  if (text === undefined) return undefined;
  if (/^[1-9]\d{0,3}$/.test(String(text)) && isSide(Number(text))) return Number(text);
  throw new ProblemError('bad_request', `${name} is a number of pixels, 1 to ${MAX_SIDE_PIXELS}.`);
}

function oneOf<Value extends string>(
  query: Query,
  name: string,
  values: readonly Value[],
): Value | undefined {
  const text = query[name] || undefined;
  if (text === undefined) return undefined;
  const found = values.find((value) => value === text);
  if (found) return found;
  throw new ProblemError('bad_request', `${name} is one of ${values.join(', ')}.`);
}

/**
 * The smallest format that the client accepts. Clients that can display AVIF or WebP say so by
 * name.
 */
function acceptedFormat(accept = ''): Format {
  const types = accept.split(',').map((each) => each.trim().toLowerCase());
  const takes = (type: string) =>
    types.some((each) => each.split(';')[0] === type && !/;\s*q=0(?:\.0*)?$/.test(each));
  if (takes('image/avif')) return 'avif';
  return takes('image/webp') ? 'webp' : 'jpeg';
}

export function mediaType({ format }: Variant): string {
  return `image/${format}`;
}

/** 16 bytes that name the variant of a file, for `Store.findOnce`. */
export function variantMark(key: string, { width, height, fit, format }: Variant): Buffer {
  const text = `stevedore-picture-1\n${key}\n${width ?? ''}x${height ?? ''}\n${fit}\n${format}`;
  return createHash('sha256').update(text).digest().subarray(0, 16);
}

/** A width, a height or both, in pixels, that anyone may request. */
export interface Size {
  readonly width: number | undefined;
  readonly height: number | undefined;
}

const MAX_SIDE_PIXELS = 8192;
const SIZE = /^(\d{1,4})?(?:x(\d{1,4}))?$/;

/** `320`, `x200` or `640x480`; undefined for anything else. */
export function parseSize(text: string): Size | undefined {
  const found = text === '' ? null : SIZE.exec(text);
  if (!found) return undefined;
  const [width, height] = found.slice(1).map((each) => (each ? Number(each) : undefined));
  if (width === undefined && height === undefined) return undefined;
  if (![width, height].every((side) => side === undefined || isSide(side))) return undefined;
  return { width, height };
}

function isSide(side: number): boolean {
  return side >= 1 && side <= MAX_SIDE_PIXELS;
}

export function isSameSize(a: Size, b: Size): boolean {
  return a.width === b.width && a.height === b.height;
}

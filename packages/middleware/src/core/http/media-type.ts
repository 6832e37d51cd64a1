import { safeParse } from 'fast-content-type-parse';

/**
 * Media types: which are well formed, and which a browser may show in place.
 */

export const DEFAULT_TYPE = 'application/octet-stream';

const MAX_TYPE_CHARS = 255;

/** The type as given if it is one, else undefined. */
export function mediaType(text: string | undefined): string | undefined {
  if (text === undefined || text.length > MAX_TYPE_CHARS) return undefined;
  const trimmed = text.trim();
  return safeParse(trimmed).type === '' ? undefined : trimmed;
}

/** `text/plain; charset=utf-8` -> `text/plain`, also where the parameters are malformed. */
export function essence(type: string): string {
  const semicolon = type.indexOf(';');
  return (semicolon < 0 ? type : type.slice(0, semicolon)).trim().toLowerCase();
}

/** Types without a script in them. SVG is an image and not one of them. */
const INLINE = new Set([
  'application/pdf',
  'image/apng',
  'image/avif',
  'image/bmp',
  'image/gif',
  'image/heic',
  'image/heif',
  'image/jpeg',
  'image/png',
  'image/tiff',
  'image/vnd.microsoft.icon',
  'image/webp',
  'image/x-icon',
  'text/plain',
]);

/** True if a browser may show the type in place; anything else is only ever downloaded. */
export function mayShowInline(type: string): boolean {
  const name = essence(type);
  return INLINE.has(name) || /^(?:audio|video)\/[a-z0-9.-]+$/.test(name);
}

import { lookup } from 'mime-types';

/**
 * Media types: which are well formed, which a browser may show in place, and
 * which one an extension stands for.
 */

export const DEFAULT_TYPE = 'application/octet-stream';

const MAX_TYPE_CHARS = 255;
const TOKEN = "[A-Za-z0-9!#$%&'*+.^_`|~-]+";
const QUOTED = '"(?:[\\t !#-\\[\\]-~]|\\\\[\\t -~])*"';
/** A parameter may be empty (RFC 9110, section 5.6.6): some clients end a type with a semicolon. */
const MEDIA_TYPE = new RegExp(
  `^${TOKEN}/${TOKEN}(?:[ \\t]*;(?:[ \\t]*${TOKEN}=(?:${TOKEN}|${QUOTED}))?)*$`,
);

/** The type as given if it is one, else undefined. */
export function mediaType(text: string | undefined): string | undefined {
  if (text === undefined || text.length > MAX_TYPE_CHARS) return undefined;
  const trimmed = text.trim();
  return MEDIA_TYPE.test(trimmed) ? trimmed : undefined;
}

/** `text/plain; charset=utf-8` -> `text/plain` */
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

/** With its dot or without. */
export function typeOfExtension(extension: string): string {
  return lookup(extension) || DEFAULT_TYPE;
}

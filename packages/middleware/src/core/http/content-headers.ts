import type { IncomingHttpHeaders } from 'node:http';
import { decodeExtended, encodeExtended } from 'content-disposition';
import { safeParse } from 'fast-content-type-parse';
import type { TransferLimits } from '../limits.js';
import { ProblemError } from '../problems.js';

/**
 * Headers about content: file names, media types, and text in headers. Content-Disposition is
 * written and parsed by RFC 6266 and RFC 8187. Whatever the name, nothing written here contains a
 * control character, nor one that reverses the direction of text and makes `fdp.exe` look like
 * `exe.pdf`.
 */

export interface Disposition {
  /** `attachment`, `form-data`; lower case. */
  readonly kind: string;
  /** Name of the form field. */
  readonly name?: string;
  readonly filename?: string;
}

/** The header for a file of this name. */
export function formatDisposition(kind: 'inline' | 'attachment', filename: string): string {
  const name = cleanName(filename);
  if (name === '') return kind;
  if (/^[A-Za-z0-9 ._+~!@#$&()=-]+$/.test(name)) return `${kind}; filename="${name}"`;
  const fallback = name.replace(/[^\x20-\x7e]/g, '_').replace(/["\\%]/g, '_');
  return `${kind}; filename="${fallback}"; filename*=${encodeExtended(name)}`;
}

const CONTROLS = /[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;

/**
 * No control characters, no lone surrogates, and no separators: some clients take a name for a
 * path.
 */
function cleanName(name: string): string {
  return name.toWellFormed().replace(CONTROLS, '').replace(/[/\\]/g, '_');
}

/** Some clients send a whole path of Windows as the name, or `C:\fakepath\x.png`. */
const WINDOWS_FOLDERS = /^[A-Za-z]:\\(?:.*\\)?/s;

const PARAMETER =
  /;[ \t]*([A-Za-z0-9!#$%&'*+.^_`|~-]+)[ \t]*=[ \t]*(?:"((?:[^"\\]|\\[\s\S])*)"|([^;"\t ]*))[ \t]*/y;

/** Parses a header; undefined if it is malformed. */
export function parseDisposition(header: string): Disposition | undefined {
  const kind = /^[ \t]*([A-Za-z0-9!#$%&'*+.^_`|~-]+)[ \t]*/.exec(header);
  if (!kind) return undefined;
  const values = new Map<string, string>();
  PARAMETER.lastIndex = kind[0].length;
  while (PARAMETER.lastIndex < header.length) {
    // A lone semicolon at the end is common and harmless.
    if (/^;[ \t]*$/.test(header.slice(PARAMETER.lastIndex))) break;
    const match = PARAMETER.exec(header);
    if (!match) return undefined;
    const [, parameter = '', quoted, token = ''] = match;
    const name = parameter.toLowerCase();
    // If a parameter occurs twice, neither value can be trusted.
    if (values.has(name)) return undefined;
    values.set(name, quoted?.replace(/\\(["\\])/g, '$1') ?? token);
  }
  const plain = values.get('filename');
  const extended = decodeExtended(values.get('filename*') ?? '');
  const filename = extended ?? (plain === undefined ? undefined : headerText(plain));
  const field = values.get('name');
  return {
    kind: kind[0].trim().toLowerCase(),
    ...(field === undefined ? {} : { name: headerText(field) }),
    ...(filename === undefined ? {} : { filename: filename.replace(WINDOWS_FOLDERS, '') }),
  };
}

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** Headers arrive as one character per byte; bytes that are not UTF-8 are Latin-1. */
export function headerText(value: string): string {
  if (!/[\x80-\xff]/.test(value)) return value;
  return decodeUtf8(Buffer.from(value, 'latin1')) ?? value;
}

/** Percent-decoded UTF-8; undefined if it is not that. */
function percentDecode(value: string): string | undefined {
  if (/^[\x20-\x24\x26-\x7e]*$/.test(value)) return value;
  try {
    return decodeURIComponent(headerText(value));
  } catch {
    return undefined;
  }
}

function decodeUtf8(bytes: Buffer): string | undefined {
  try {
    return utf8.decode(bytes);
  } catch {
    return undefined;
  }
}

/** Media types: which ones are well formed, and which ones a browser may display inline. */

export const DEFAULT_TYPE = 'application/octet-stream';

const MAX_TYPE_CHARS = 255;

/** The type as given if it is valid, else undefined. */
export function mediaType(text: string | undefined): string | undefined {
  if (text === undefined || text.length > MAX_TYPE_CHARS) return undefined;
  const trimmed = text.trim();
  return safeParse(trimmed).type === '' ? undefined : trimmed;
}

/** What phones and browsers let people pick. */
const TYPES_BY_EXTENSION: Readonly<Record<string, string>> = {
  avif: 'image/avif',
  bmp: 'image/bmp',
  gif: 'image/gif',
  heic: 'image/heic',
  heif: 'image/heif',
  jpeg: 'image/jpeg',
  jpg: 'image/jpeg',
  png: 'image/png',
  webp: 'image/webp',
  m4a: 'audio/mp4',
  m4v: 'video/mp4',
  mov: 'video/quicktime',
  mp3: 'audio/mpeg',
  mp4: 'video/mp4',
  pdf: 'application/pdf',
  webm: 'video/webm',
};

/** The type that the extension of a picture, sound, film or PDF names. */
export function typeByName(name: string): string | undefined {
  const extension = name.slice(name.lastIndexOf('.') + 1).toLowerCase();
  return Object.hasOwn(TYPES_BY_EXTENSION, extension) ? TYPES_BY_EXTENSION[extension] : undefined;
}

/**
 * Not of one file: `image/*`, and what curl and wget say of the bytes of any file, unless they are
 * given a type.
 */
const NOT_OF_A_FILE = /^(?:.*\/\*|application\/x-www-form-urlencoded)$/;

/**
 * The type of a file in an upload. Image pickers send none, or one that is no media type (`image`,
 * `undefined`); then its name decides.
 */
export function fileType(declared: string | undefined, name: string): string {
  return usefulType(declared) ?? typeByName(name) ?? DEFAULT_TYPE;
}

function usefulType(declared: string | undefined): string | undefined {
  if (declared === undefined || declared.length > MAX_TYPE_CHARS) return undefined;
  const type = mediaType(declared.replace(/[; \t]+$/, ''));
  return type !== undefined && !NOT_OF_A_FILE.test(essence(type)) ? type : undefined;
}

/** `text/plain; charset=utf-8` -> `text/plain`, even if the parameters are malformed. */
export function essence(type: string): string {
  const semicolon = type.indexOf(';');
  return (semicolon < 0 ? type : type.slice(0, semicolon)).trim().toLowerCase();
}

/** Types without scripts. SVG is an image that can have them. */
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

/** True if a browser may display the type inline; anything else is only ever downloaded. */
export function mayShowInline(type: string): boolean {
  const name = essence(type);
  return INLINE.has(name) || /^(?:audio|video)\/[a-z0-9.-]+$/.test(name);
}

const RUN =
  /^(?:message|multipart)\/|\b(?:html|xhtml|xml|hta|(?:java|ecma|live|j)script|shockwave-flash)\b/;

/** True if a browser may run the type when it opens it, as it does with pages and documents of XML. */
export function mayRun(type: string): boolean {
  return RUN.test(essence(type));
}

/**
 * The client's name for a file: text that is stored and returned, never a path. It may contain any
 * character; only its length is bounded.
 */

/** Of a raw upload: `X-Filename`, else the name in Content-Disposition, else none. */
export function fileNameOf(headers: IncomingHttpHeaders, limits: TransferLimits): string {
  const name = percentName(headers['x-filename']) ?? disposition(headers['content-disposition']);
  const problem = checkName(name, limits);
  if (problem) throw problem;
  return name;
}

export function checkName(name: string, limits: TransferLimits): ProblemError | undefined {
  if (Buffer.byteLength(name) <= limits.maxNameBytes) return undefined;
  const message = `A file name may have at most ${limits.maxNameBytes} bytes.`;
  return new ProblemError('invalid_name', message);
}

/** `X-Filename`. Throws `invalid_name`. */
export function percentName(value: string | string[] | undefined): string | undefined {
  if (value === undefined) return undefined;
  const name = percentDecode(String(value));
  if (name === undefined) {
    throw new ProblemError('invalid_name', 'X-Filename is not percent-encoded UTF-8.');
  }
  return name;
}

function disposition(value: string | undefined): string {
  if (value === undefined) return '';
  const parsed = parseDisposition(value);
  if (!parsed) throw new ProblemError('invalid_name', 'Content-Disposition is malformed.');
  return parsed.filename ?? '';
}

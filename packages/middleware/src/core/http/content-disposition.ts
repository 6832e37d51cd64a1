import { decodeExtended, encodeExtended } from 'content-disposition';

/**
 * Content-Disposition, written (RFC 6266, RFC 8187) and read, and text in
 * headers. Nothing written here holds a control character, whatever the name, nor one
 * that turns the direction of text around and makes `fdp.exe` look like `exe.pdf`.
 */

export interface Disposition {
  /** `attachment`, `form-data`; lower case. */
  readonly kind: string;
  /** Name of a form's field. */
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

/** No control characters, no half of a pair, and no separators: some clients take a name for a path. */
function cleanName(name: string): string {
  return name.toWellFormed().replace(CONTROLS, '').replace(/[/\\]/g, '_');
}

const PARAMETER =
  /;[ \t]*([A-Za-z0-9!#$%&'*+.^_`|~-]+)[ \t]*=[ \t]*(?:"((?:[^"\\]|\\[\s\S])*)"|([^;"\t ]*))[ \t]*/y;

/** Takes a header apart; undefined when it does not have the form of one. */
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
    const name = match[1]!.toLowerCase();
    // Of two parameters with one name neither can be trusted.
    if (values.has(name)) return undefined;
    values.set(name, match[2] === undefined ? match[3]! : match[2].replace(/\\(["\\])/g, '$1'));
  }
  const plain = values.get('filename');
  const extended = decodeExtended(values.get('filename*') ?? '');
  const filename = extended ?? (plain === undefined ? undefined : headerText(plain));
  const field = values.get('name');
  return {
    kind: kind[1]!.toLowerCase(),
    ...(field === undefined ? {} : { name: headerText(field) }),
    ...(filename === undefined ? {} : { filename }),
  };
}

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** Headers arrive as one character per byte; bytes that are not UTF-8 are Latin-1. */
export function headerText(value: string): string {
  if (!/[\x80-\xff]/.test(value)) return value;
  return decodeUtf8(Buffer.from(value, 'latin1')) ?? value;
}

/** Percent-decoded UTF-8; undefined when it is not that. */
export function percentDecode(value: string): string | undefined {
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

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
  return `${kind}; filename="${fallback}"; filename*=UTF-8''${percentEncode(name)}`;
}

const CONTROLS = /[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;

/** No control characters, and no separators: some clients take a name for a path. */
function cleanName(name: string): string {
  return name.replace(CONTROLS, '').replace(/[/\\]/g, '_');
}

/** Byte by byte, so that half a surrogate pair is replaced and does not throw. */
function percentEncode(text: string): string {
  let encoded = '';
  for (const byte of Buffer.from(text, 'utf8')) {
    const char = String.fromCharCode(byte);
    encoded += /[A-Za-z0-9!#$&+.^_`|~-]/.test(char)
      ? char
      : `%${byte.toString(16).toUpperCase().padStart(2, '0')}`;
  }
  return encoded;
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
  const extended = decodeExtended(values.get('filename*'));
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

/** `UTF-8'en'na%C3%AFve.txt` */
function decodeExtended(value: string | undefined): string | undefined {
  const match = /^(utf-8|iso-8859-1)'[A-Za-z0-9-]*'([A-Za-z0-9!#$&+.^_`|~%-]*)$/i.exec(value ?? '');
  if (!match || /%(?![0-9A-Fa-f]{2})/.test(match[2]!)) return undefined;
  const bytes = Buffer.from(
    match[2]!.replace(/%([0-9A-Fa-f]{2})/g, (_, hex: string) =>
      String.fromCharCode(Number.parseInt(hex, 16)),
    ),
    'latin1',
  );
  return match[1]!.toLowerCase() === 'utf-8' ? decodeUtf8(bytes) : bytes.toString('latin1');
}

function decodeUtf8(bytes: Buffer): string | undefined {
  try {
    return utf8.decode(bytes);
  } catch {
    return undefined;
  }
}

import { crc32 } from 'node:zlib';

/** The CSV of `import` and `export`, by RFC 4180: which path has which key. */

export const CSV_HEAD = 'path,key,size,crc32,name\n';

export interface CsvFacts {
  readonly key?: unknown;
  readonly size?: unknown;
  /** 8 hexadecimal digits. */
  readonly crc32?: unknown;
  /** At the gateway. */
  readonly name?: unknown;
}

/** A row without its line end. */
export function csvRow(path: string, { key, size, crc32, name }: CsvFacts): string {
  return [text(path), key, size, crc32, text(String(name ?? ''))].join(',');
}

/**
 * Text of strangers. A spreadsheet would run a cell that begins like a formula: a ' goes before
 * it, as OWASP advises; before one with a ' there already too, so that taking one off undoes it.
 */
function text(value: string): string {
  // Databases refuse NUL in a text.
  const plain = value.replaceAll('\0', '\ufffd');
  const guarded = /^'*[=+\-@\t\r\n]/.test(plain) ? `'${plain}` : plain;
  // Some spreadsheets separate cells by ; or a tab.
  return /[",;\t\r\n]/.test(guarded) ? `"${guarded.replaceAll('"', '""')}"` : guarded;
}

/** The CRC-32 of these bytes, as in the gateway's JSON. */
export async function crcOf(bytes: AsyncIterable<Uint8Array>): Promise<string> {
  let sum = 0;
  for await (const chunk of bytes) sum = crc32(chunk, sum);
  return hex(sum);
}

/** A CRC-32 as in the gateway's JSON. */
export function hex(sum: number): string {
  return sum.toString(16).padStart(8, '0');
}

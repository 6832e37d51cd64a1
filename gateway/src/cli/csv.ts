/** The CSV of `import` and `export`, by RFC 4180: which path has which key. */

export const CSV_HEAD = 'path,key,size,crc32\n';

/** A row without its line end. `crc32` has 8 hexadecimal digits. */
export function csvRow(
  path: string,
  {
    key,
    size,
    crc32,
  }: { readonly key?: unknown; readonly size?: unknown; readonly crc32?: unknown },
): string {
  return [path, key, size, crc32].map(cell).join(',');
}

function cell(value: unknown): string {
  const text = String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** A CRC-32 as in the gateway's JSON. */
export function hex(sum: number): string {
  return sum.toString(16).padStart(8, '0');
}

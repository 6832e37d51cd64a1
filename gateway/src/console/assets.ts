import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';

/** The files of the console as they are in the package: read once, never built. */

export interface Asset {
  readonly bytes: Buffer;
  readonly type: string;
  readonly etag: string;
}

const FOLDER = new URL('../../console/', import.meta.url);
const TYPES: Readonly<Record<string, string>> = {
  css: 'text/css; charset=utf-8',
  html: 'text/html; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
  svg: 'image/svg+xml',
};

export function readAsset(name: string): Asset {
  const bytes = readFileSync(new URL(name, FOLDER));
  const digest = createHash('sha256').update(bytes).digest('base64url');
  const type = TYPES[name.slice(name.lastIndexOf('.') + 1)]!;
  return { bytes, type, etag: `"${digest.slice(0, 22)}"` };
}

import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { DEFAULT_TYPE } from '@stevedore/middleware/core';
import { contentType } from 'mime-types';

/** The files of the console as they are in the package: read once, never built. */

export interface Asset {
  readonly bytes: Buffer;
  readonly type: string;
  readonly etag: string;
}

const FOLDER = new URL('../../console/', import.meta.url);

export function readAsset(name: string): Asset {
  const bytes = readFileSync(new URL(name, FOLDER));
  const digest = createHash('sha256').update(bytes).digest('base64url');
  const type = contentType(name) || DEFAULT_TYPE;
  // By its bytes: all files of an installed package have the same time.
  return { bytes, type, etag: `"${digest.slice(0, 22)}"` };
}

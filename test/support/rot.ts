import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { hasCode } from '@stevedore/disk';

/** Turns one bit of the needle where it stands in one of the folder's files; again: back. */
export function turnBit(folder: string, needle: Buffer): void {
  const mark = needle.subarray(20, 60);
  for (const name of readdirSync(folder)) {
    const path = join(folder, name);
    const bytes = contentOf(path);
    const at = bytes.indexOf(mark);
    if (at < 0) continue;
    bytes[at - 5]! ^= 1;
    writeFileSync(path, bytes);
    return;
  }
  throw new Error('the bytes are in none of the files');
}

/** Nothing of a file that was removed since it was listed. */
function contentOf(path: string): Buffer {
  try {
    return readFileSync(path);
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return Buffer.alloc(0);
    throw error;
  }
}

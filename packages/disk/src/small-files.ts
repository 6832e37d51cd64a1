import { join } from 'node:path';
import type { Disk } from './disk.js';
import { hasCode } from './disk.js';

/** Operations on whole small files, for any disk. */

/** The file's bytes, at most `maxBytes`; undefined if there is no file. */
export async function readSmallFile(
  disk: Disk,
  path: string,
  maxBytes = Number.MAX_SAFE_INTEGER,
): Promise<Buffer | undefined> {
  try {
    const file = await disk.openToRead(path);
    try {
      const bytes = Buffer.alloc(Math.min((await file.stat()).size, maxBytes));
      return bytes.subarray(0, await file.readAt(bytes, 0));
    } finally {
      await file.close();
    }
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return undefined;
    throw error;
  }
}

/**
 * Replaces a small file atomically: after a crash it is complete, as before, or absent. Callers
 * must serialize writes of the same file.
 */
export async function replaceFile(
  disk: Disk,
  directory: string,
  name: string,
  content: string | Uint8Array,
): Promise<void> {
  const temporary = join(directory, `${name}.new`);
  await removeIfThere(disk, temporary);
  const file = await disk.create(temporary, true);
  try {
    await file.writeAt([Buffer.from(content)], 0);
    await file.sync();
  } finally {
    await file.close();
  }
  await disk.rename(temporary, join(directory, name));
  await disk.syncDirectory(directory);
}

/** Removes the file; durable once its directory is synced. False if there was none. */
export async function removeIfThere(disk: Disk, path: string): Promise<boolean> {
  try {
    await disk.unlink(path);
    return true;
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return false;
    throw error;
  }
}

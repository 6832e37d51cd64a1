import { randomBytes } from 'node:crypto';
import { open, readFile, rename, rm } from 'node:fs/promises';
import { type ApiKey, formatKeyFile, parseKeyFile } from './api-key.js';

/**
 * The file of API keys, changed as a whole: the new content is synced under another
 * name and takes the file's place at once, so that a gateway never reads half of it.
 * Only its owner may read it.
 */

/** No file has no keys. Rejects with `invalid_option`. */
export async function readKeyFile(path: string): Promise<ApiKey[]> {
  try {
    return parseKeyFile(await readFile(path, 'utf8'), path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw error;
  }
}

export async function writeKeyFile(path: string, keys: readonly ApiKey[]): Promise<void> {
  const temporary = `${path}.${randomBytes(6).toString('hex')}`;
  try {
    const file = await open(temporary, 'wx', 0o600);
    try {
      await file.writeFile(formatKeyFile(keys));
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(temporary, path);
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
}

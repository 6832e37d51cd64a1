import { randomBytes } from 'node:crypto';
import { readFile, realpath, stat, writeFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { StoreError } from '@stevedore/staging';

const FILE = 'instance';

/**
 * The name of a directory in its deployment, made once: a copy of the directory has the same
 * one, and the map refuses to let both give out keys. Only for the process that holds the directory's lock.
 */
export async function readInstance(directory: string): Promise<string> {
  const path = join(directory, FILE);
  try {
    await writeFile(path, `${randomBytes(16).toString('hex')}\n`, { flag: 'wx', mode: 0o600 });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  }
  const text = (await readFile(path, 'utf8')).trim();
  if (/^[0-9a-f]{32}$/.test(text)) return text;
  throw new StoreError(
    'directory_unusable',
    `${path} does not name the directory; remove it, and give this server a new place in its deployment`,
  );
}

/**
 * Where the directory is: host, path and the file that names it. Two containers can have the same
 * host name and path; a copy of that file is another file.
 */
export async function placeOf(directory: string): Promise<string> {
  const { ino, birthtimeMs } = await stat(join(directory, FILE), { bigint: true });
  return `${hostname()}:${await realpath(directory)}#${ino.toString(36)}-${birthtimeMs.toString(36)}`;
}

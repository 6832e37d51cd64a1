import { randomBytes } from 'node:crypto';
import { readFile, realpath, rename, stat, writeFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { StoreError } from '@stevedore/staging';
import type { LastRun } from './gateways.js';

const FILE = 'instance';

/**
 * The name of a directory in its deployment, created once. A copy of the directory has the same
 * name, and the map refuses to let both issue keys. The caller must hold the directory's lock.
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
 * Identifies where the directory is: by host, path, and inode and birth time of the file that names
 * it. Two OS containers can have the same host name and path, but a copy is another file.
 */
export async function placeOf(directory: string): Promise<string> {
  const { ino, birthtimeMs } = await stat(join(directory, FILE), { bigint: true });
  return `${hostname()}:${await realpath(directory)}#${ino.toString(36)}-${birthtimeMs.toString(36)}`;
}

const RUN_FILE = 'deployment.json';

/** Saves what this server knows of its deployment, for a start while the map is down. */
export async function saveRun(directory: string, run: LastRun): Promise<void> {
  const path = join(directory, RUN_FILE);
  await writeFile(`${path}.new`, `${JSON.stringify(run)}\n`, { mode: 0o600, flush: true });
  await rename(`${path}.new`, path);
}

/** Empty if nothing was saved, or nothing that can be read. */
export async function loadRun(directory: string): Promise<LastRun> {
  try {
    const run = JSON.parse(await readFile(join(directory, RUN_FILE), 'utf8')) as LastRun;
    if (Array.isArray(run.gateways)) return run;
  } catch {}
  return { secret: undefined, gateways: [] };
}

import { type BigIntStats, createReadStream } from 'node:fs';
import { lstat, opendir, readlink, stat } from 'node:fs/promises';
import { basename, join, resolve } from 'node:path';
import type { Readable } from 'node:stream';
import { printable } from './errors.js';
import type { Source, SourceFile } from './put-run.js';

/**
 * Files on this disk, as a source of uploads: a directory with everything below it. Links are
 * followed, except back to a directory above them. What cannot be taken is yielded as a failure,
 * so that nothing is left out without a word.
 */

const STDIN: ReadonlySet<string> = new Set(['-', '/dev/stdin', '/dev/fd/0', '/proc/self/fd/0']);
const OPEN_FILE = /^\/(?:dev|proc\/self)\/fd\/\d+$/;
const UNNAMED: ReadonlySet<string> = new Set(['', '.', '..']);

/** `name` takes the place of a path's own. `-` and open pipes (`<(…)`) are read to their end. */
export async function* localFiles(paths: readonly string[], name?: string): Source {
  let hasStdin = false;
  for (const path of paths) {
    const own = basename(join(path));
    const stored = name ?? (UNNAMED.has(own) ? '' : own);
    if (STDIN.has(path)) {
      if (hasStdin) yield { path, error: new Error('stdin can be read only once') };
      else yield stream(path, name ?? 'stdin', () => process.stdin);
      hasStdin = true;
    } else if (OPEN_FILE.test(path) && (await stat(path).catch(() => undefined))?.isFIFO()) {
      yield stream(path, stored, () => createReadStream(path));
    } else yield* filesBelow(path, stored);
  }
}

/**
 * Everything below a directory, named by its path from there. `above` has the device and inode of
 * each directory on the way.
 */
export async function* filesBelow(path: string, name = '', above: readonly string[] = []): Source {
  try {
    const found = await stat(path, { bigint: true });
    if (found.isFile()) yield localFile(path, name || basename(path), found);
    else if (found.isDirectory()) {
      const place = `${found.dev} ${found.ino}`;
      if (above.includes(place)) {
        throw new Error(`${printable(path)} leads back to a directory above it`);
      }
      for await (const { name: part } of await opendir(path)) {
        const next = path.endsWith('/') ? `${path}${part}` : `${path}/${part}`;
        yield* filesBelow(next, name === '' ? part : `${name}/${part}`, [...above, place]);
      }
    } else throw new Error(`${printable(path)} is a ${kindOf(found)}, not a file`);
  } catch (error) {
    yield { path, error: await explained(path, error as NodeJS.ErrnoException) };
  }
}

function localFile(path: string, name: string, { size, mtimeNs, ino }: BigIntStats): SourceFile {
  return {
    path,
    identity: resolve(path),
    name,
    size: Number(size),
    state: `${size} ${mtimeNs} ${ino}`,
    open: () => createReadStream(path),
  };
}

/** Neither its size nor whether it was sent before can be known. */
function stream(path: string, name: string, open: () => Readable): SourceFile {
  return { path, identity: undefined, name, size: undefined, state: '', open };
}

function kindOf(found: BigIntStats): string {
  // Its other end may never come.
  if (found.isFIFO()) return 'pipe';
  return found.isSocket() ? 'socket' : 'device';
}

async function explained(path: string, error: NodeJS.ErrnoException): Promise<Error> {
  if (error.code !== 'ENOENT') return error;
  if (path.includes('\ufffd')) return new Error(`${printable(path)}: the name is not UTF-8`);
  if (!(await lstat(path).catch(() => undefined))?.isSymbolicLink()) return error;
  const target = printable(await readlink(path));
  return new Error(`${printable(path)} is a link to ${target}, which does not exist`);
}

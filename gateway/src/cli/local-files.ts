import { createReadStream } from 'node:fs';
import { opendir, stat } from 'node:fs/promises';
import { basename, join, resolve } from 'node:path';
import type { ReadFile, Source } from './put-run.js';

/** Files on this disk, as a source of uploads. */

/**
 * Files as they are, and directories with everything below them; links are followed only if they
 * are named.
 */
export async function* localFiles(paths: readonly string[]): Source {
  for (const path of paths) yield* from(path, basename(join(path)));
}

/** Everything below a directory, named by its path from there. */
export async function* filesBelow(directory: string): Source {
  yield* from(directory, '.');
}

async function* from(path: string, name: string): Source {
  try {
    const found = await stat(path, { bigint: true });
    if (!found.isDirectory()) {
      if (!found.isFile()) throw new Error(`${path} is neither a file nor a directory`);
      const { size, mtimeNs, ino } = found;
      yield localFile(path, name, Number(size), `${size} ${mtimeNs} ${ino}`);
      return;
    }
    for await (const entry of await opendir(path)) {
      if (!entry.isFile() && !entry.isDirectory()) continue;
      yield* from(join(path, entry.name), name === '.' ? entry.name : `${name}/${entry.name}`);
    }
  } catch (error) {
    yield { path, error };
  }
}

function localFile(path: string, name: string, size: number, state: string): ReadFile {
  const identity = resolve(path);
  return { path, identity, name, size, state, open: () => createReadStream(path) };
}

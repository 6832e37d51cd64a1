import { opendir, stat } from 'node:fs/promises';
import { basename, join } from 'node:path';

/** Files on this disk, as `put` finds them. */

export interface LocalFile {
  readonly path: string;
  /** Name to store it under: of a file in a directory with the way to it. */
  readonly name: string;
  readonly size: number;
  /** Changes whenever the file does: size, time of the last change, inode. */
  readonly state: string;
}

export interface LocalFailure {
  readonly path: string;
  readonly error: unknown;
}

/** Files as they are, directories with all that is below them; links only where named. */
export async function* localFiles(
  paths: readonly string[],
): AsyncGenerator<LocalFile | LocalFailure, void, undefined> {
  for (const path of paths) yield* from(path, basename(join(path)));
}

async function* from(
  path: string,
  name: string,
): AsyncGenerator<LocalFile | LocalFailure, void, undefined> {
  try {
    const found = await stat(path, { bigint: true });
    if (!found.isDirectory()) {
      if (!found.isFile()) throw new Error(`${path} is neither a file nor a directory`);
      const { size, mtimeNs, ino } = found;
      yield { path, name, size: Number(size), state: `${size} ${mtimeNs} ${ino}` };
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

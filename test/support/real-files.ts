import { lstatSync, readdirSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';

/** Files as they lie about on a machine: documents, headers, scripts, icons. */
export interface RealFile {
  readonly name: string;
  readonly bytes: Buffer;
}

const PLACES = [
  '/usr/share/doc',
  '/usr/share/icons',
  '/usr/share/pixmaps',
  '/usr/share/perl',
  '/usr/include',
  '/usr/share/zoneinfo',
  '/etc',
  join(import.meta.dirname, '../../node_modules'),
];
const MAX_BYTES = 200_000;
const MAX_VISITED = 4_000;

/** Up to `count` files of at most 200 KB from all over the places there are. */
export function realFiles(count: number): RealFile[] {
  const perPlace = PLACES.map((place) => {
    const found: string[] = [];
    walk(place, found);
    return found;
  });
  const files: RealFile[] = [];
  for (let round = 0; files.length < count && perPlace.some((found) => found.length > 0); round++) {
    for (const found of perPlace) {
      // From the whole of the list, not the first folder alone.
      const [path] = found.splice(Math.floor((found.length * ((round * 37) % 100)) / 100), 1);
      const bytes = path === undefined ? undefined : readable(path);
      if (bytes && files.length < count) files.push({ name: basename(path!), bytes });
    }
  }
  return files;
}

function walk(folder: string, found: string[]): void {
  let names: string[];
  try {
    names = readdirSync(folder);
  } catch {
    return;
  }
  for (const name of names) {
    if (found.length >= MAX_VISITED) return;
    const path = join(folder, name);
    const stat = lstatSync(path, { throwIfNoEntry: false });
    if (stat?.isDirectory()) walk(path, found);
    else if (stat?.isFile() && stat.size <= MAX_BYTES) found.push(path);
  }
}

function readable(path: string): Buffer | undefined {
  try {
    return readFileSync(path);
  } catch {
    return undefined;
  }
}

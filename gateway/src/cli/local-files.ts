import { isUtf8 } from 'node:buffer';
import { type BigIntStats, createReadStream, type Dirent, readFileSync } from 'node:fs';
import { lstat, opendir, readlink, stat } from 'node:fs/promises';
import { basename, join, resolve } from 'node:path';
import type { Readable } from 'node:stream';
import { printable } from './errors.js';
import type { Source, SourceFile } from './put-run.js';

/**
 * Files on this disk, as a source of uploads: a directory with everything below it. Links are
 * followed, except back to a directory above them. What cannot be taken is yielded as a failure,
 * so that nothing is left out without a word.
 *
 * Names are bytes on this disk and text at a gateway. A name that is not UTF-8 is written with
 * `%XX` for each byte that is not ASCII and for `%`, which can be undone.
 */

/** `name` takes the place of a path's own. `-` and open pipes (`<(…)`) are read to their end. */
export async function* localFiles(paths: readonly string[], name?: string): Source {
  const walk = new Walk();
  for (const path of asGiven(paths)) yield* walk.named(path, name);
}

/** Everything below a directory, named by its path from there. */
export function filesBelow(directory: string): Source {
  const [given = Buffer.from(directory)] = asGiven([directory]);
  return new Walk().below(given, '');
}

/** Links may lead to one directory from many places, and those to the next: the ways multiply. */
const MAX_VISITS_BY_LINKS = 100;
const STDIN: ReadonlySet<string> = new Set(['-', '/dev/stdin', '/dev/fd/0', '/proc/self/fd/0']);
const OPEN_FILE = /^\/(?:dev|proc\/self)\/fd\/\d+$/;
const UNNAMED: ReadonlySet<string> = new Set(['', '.', '..']);

class Walk {
  /** By device and inode: how often the directory was read on a way with a link in it. */
  readonly #visits = new Map<string, number>();
  #hasStdin = false;

  async *named(path: Buffer, name: string | undefined): Source {
    const shown = textOf(path);
    const own = basename(join(shown));
    const stored = name ?? (UNNAMED.has(own) ? '' : own);
    if (STDIN.has(shown)) {
      if (this.#hasStdin) yield { path: shown, error: new Error('stdin can be read only once') };
      else yield stream(shown, name ?? 'stdin', () => process.stdin);
      this.#hasStdin = true;
    } else if (OPEN_FILE.test(shown) && (await isPipe(path))) {
      yield stream(shown, stored, () => createReadStream(path));
    } else yield* this.below(path, stored);
  }

  /** `above` has the device and inode of each directory above; `isLinked`: a link is on the way. */
  async *below(
    path: Buffer,
    name: string,
    above: readonly string[] = [],
    isLinked = false,
  ): Source {
    const shown = textOf(path);
    try {
      const found = await stat(path, { bigint: true });
      if (found.isFile()) yield localFile(path, name || basename(shown), found);
      else if (found.isDirectory()) {
        const way = [...above, this.#enter(shown, found, above, isLinked)];
        for await (const entry of await opendir(path, { encoding: 'buffer' as never })) {
          const { name: bytes } = entry as unknown as Dirent<Buffer>;
          const part = textOf(bytes);
          const next = name === '' ? part : `${name}/${part}`;
          yield* this.below(joined(path, bytes), next, way, isLinked || entry.isSymbolicLink());
        }
      } else throw new Error(`${printable(shown)} is a ${kindOf(found)}, not a file`);
    } catch (error) {
      yield { path: shown, error: await explained(path, shown, error) };
    }
  }

  #enter(
    path: string,
    { dev, ino }: BigIntStats,
    above: readonly string[],
    isLinked: boolean,
  ): string {
    const place = `${dev} ${ino}`;
    if (above.includes(place))
      throw new Error(`${printable(path)} leads back to a directory above it`);
    if (!isLinked) return place;
    const visits = (this.#visits.get(place) ?? 0) + 1;
    this.#visits.set(place, visits);
    if (visits <= MAX_VISITS_BY_LINKS) return place;
    throw new Error(`${printable(path)}: links lead here on more than ${MAX_VISITS_BY_LINKS} ways`);
  }
}

function localFile(path: Buffer, name: string, { size, mtimeNs, ino }: BigIntStats): SourceFile {
  const shown = textOf(path);
  const absolute = resolve(shown);
  return {
    path: shown,
    identity: isUtf8(path) ? absolute : `percent-encoded ${absolute}`,
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

async function isPipe(path: Buffer): Promise<boolean> {
  return (await stat(path).catch(() => undefined))?.isFIFO() ?? false;
}

function kindOf(found: BigIntStats): string {
  // Its other end may never come.
  if (found.isFIFO()) return 'pipe';
  return found.isSocket() ? 'socket' : 'device';
}

/** With its path as text: the one in the system's error has lost bytes. */
async function explained(path: Buffer, shown: string, error: unknown): Promise<unknown> {
  const { code } = error as NodeJS.ErrnoException;
  const isLink = code === 'ENOENT' && (await lstat(path).catch(() => undefined))?.isSymbolicLink();
  if (!isLink) return code === undefined ? error : Object.assign(error as Error, { path: shown });
  const target = printable(textOf(await readlink(path, { encoding: 'buffer' })));
  return new Error(`${printable(shown)} is a link to ${target}, which does not exist`);
}

function joined(path: Buffer, name: Buffer): Buffer {
  const separator = path.at(-1) === SLASH ? '' : '/';
  return Buffer.concat([path, Buffer.from(separator), name]);
}

const SLASH = 0x2f;

function textOf(path: Buffer): string {
  if (isUtf8(path)) return path.toString();
  const encode = (char: string) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`;
  const text = (part: string) =>
    isUtf8(Buffer.from(part, 'latin1'))
      ? Buffer.from(part, 'latin1').toString()
      : part.replace(/[%\x80-\xff]/g, encode);
  return path.toString('latin1').split('/').map(text).join('/');
}

/** Arguments as bytes: Node decodes them, and replaces what is not UTF-8. */
function asGiven(paths: readonly string[]): Buffer[] {
  const given = paths.some((path) => path.includes('\ufffd')) ? processArguments() : [];
  return paths.map((path) => {
    const at = given.findIndex((bytes) => bytes.toString() === path);
    const [bytes = Buffer.from(path)] = at < 0 ? [] : given.splice(at, 1);
    return bytes;
  });
}

/** Empty where the system does not show them. */
function processArguments(): Buffer[] {
  try {
    const all = readFileSync('/proc/self/cmdline', 'latin1').split('\0');
    return all.map((text) => Buffer.from(text, 'latin1'));
  } catch {
    return [];
  }
}

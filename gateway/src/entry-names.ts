import { folded } from '@stevedore/client/internal';

/**
 * Names of files in an archive or a directory. A file's name is text from its client: it becomes a
 * relative path that cannot leave the target, on any system, and that no other entry has.
 */

export class EntryNames {
  readonly #files = new Set<string>();
  readonly #directories = new Set<string>();

  /** A unique path for a file of this name; contains its key if necessary. */
  add(name: string, key: string): string {
    const path = this.#free(safePath(name, key), key);
    this.#files.add(folded(path));
    for (const directory of directoriesOf(path)) this.#directories.add(folded(directory));
    return path;
  }

  #free(path: string, key: string): string {
    const isInFile = directoriesOf(path).some((directory) => this.#files.has(folded(directory)));
    if (isInFile) return withKey(path.slice(path.lastIndexOf('/') + 1), key);
    const isTaken = this.#files.has(folded(path)) || this.#directories.has(folded(path));
    return isTaken ? withKey(path, key) : path;
  }
}

/** `a/b/c.jpg` without parts that lead outside or that some system does not allow. */
export function safePath(name: string, key: string): string {
  const parts = name
    .split(/[\\/]/)
    .map((part) => part.replace(/[\x00-\x1f\x7f<>:"|?*]/g, '_').replace(/[. ]+$/, ''))
    .map((part) => (RESERVED.test(part) ? `_${part}` : shortened(part)))
    .filter((part) => part !== '');
  return parts.length === 0 ? key : parts.join('/');
}

/** Device names on Windows. */
const RESERVED = /^(con|prn|aux|nul|com[\d¹²³]|lpt[\d¹²³]|conin\$|conout\$)(\.|$)/i;
/** With a key appended, a part is no longer than file systems allow. */
const MAX_PART_BYTES = 220;

function shortened(part: string): string {
  if (Buffer.byteLength(part) <= MAX_PART_BYTES) return part;
  const { stem, extension } = split(part);
  const kept = Buffer.from(extension).length > 20 ? '' : extension;
  const bytes = Buffer.from(stem).subarray(0, MAX_PART_BYTES - 20);
  return bytes.toString('utf8').replace(/\ufffd+$/, '') + kept;
}

/** `a/b-KEY.jpg` */
export function withKey(path: string, key: string): string {
  const at = path.lastIndexOf('/') + 1;
  const { stem, extension } = split(path.slice(at));
  return `${path.slice(0, at)}${stem}-${key}${extension}`;
}

function split(part: string): { readonly stem: string; readonly extension: string } {
  const dot = part.lastIndexOf('.');
  if (dot <= 0) return { stem: part, extension: '' };
  return { stem: part.slice(0, dot), extension: part.slice(dot) };
}

function directoriesOf(path: string): string[] {
  const parts = path.split('/').slice(0, -1);
  return parts.map((_, at) => parts.slice(0, at + 1).join('/'));
}

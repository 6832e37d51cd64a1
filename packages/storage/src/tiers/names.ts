import { dirname, sep } from 'node:path';
import { DELETED_SUFFIX, METADATA_SUFFIX, TEMPORARY_DIRECTORY } from '../storage/layout.js';

/** What a path in a store path's data directory stands for. Pure. */

export type NameInStore =
  /** A stored file, or the metadata of one: `name` is that of the file. */
  | { readonly kind: 'file' | 'metadata'; readonly name: string }
  | { readonly kind: 'temporary' }
  /** A directory of stored files, `3F/A2/`. */
  | { readonly kind: 'directory'; readonly prefix: string }
  /** Anything else: logs, state, lists of deleted slices. */
  | { readonly kind: 'other' };

const FILE = /^[0-9A-F]{2}\/[0-9A-F]{2}\/[^/]+$/;
const DIRECTORY = /^[0-9A-F]{2}\/[0-9A-F]{2}$/;
const OTHER: NameInStore = { kind: 'other' };
const TEMPORARY: NameInStore = { kind: 'temporary' };

/** `path` is somewhere below `data`, the data directory with a separator behind it. */
export function nameInStore(data: string, path: string): NameInStore {
  const native = path.slice(data.length);
  const relative = sep === '/' ? native : native.replaceAll(sep, '/');
  if (FILE.test(relative)) {
    if (relative.endsWith(DELETED_SUFFIX)) return OTHER;
    if (!relative.endsWith(METADATA_SUFFIX)) return { kind: 'file', name: relative };
    return { kind: 'metadata', name: relative.slice(0, -METADATA_SUFFIX.length) };
  }
  if (DIRECTORY.test(relative)) return { kind: 'directory', prefix: `${relative}/` };
  return dirname(relative) === TEMPORARY_DIRECTORY ? TEMPORARY : OTHER;
}

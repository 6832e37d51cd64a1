import { join } from 'node:path';
import type { FileId } from '@stevedore/protocol';

/** Names on disk; FORMAT.md describes them. */

export const STATE_FILE = '.stevedore-storage.json';
/** In every data directory: changes that are about to be made. */
export const JOURNAL_FILE = '.stevedore-changes';
export const TEMPORARY_DIRECTORY = '.tmp';
/** In the first store path: the log of changes, and what the group knows of it. */
const LOG_DIRECTORY = 'sync';
/** Behind the name of a trunk: the file that lists its deleted slices. */
export const DELETED_SUFFIX = '-deleted';
/** Behind the name of a file: its metadata. */
export const METADATA_SUFFIX = '-m';

/** Behind the name of a temporary file that holds a piece of a change. */
const PIECE_SUFFIX = '.piece';

/** True for a piece of a change: the journal speaks of it by its name on this disk. */
export function isPieceName(path: string): boolean {
  return path.endsWith(PIECE_SUFFIX);
}

export function pieceName(temporary: string): string {
  return temporary + PIECE_SUFFIX;
}

/** True for names that only files of the storage itself have. */
export function isReservedName(base: string): boolean {
  return base.endsWith(DELETED_SUFFIX) || base.endsWith(METADATA_SUFFIX);
}

export function dataDirectory(storePath: string): string {
  return join(storePath, 'data');
}

export function temporaryDirectory(storePath: string): string {
  return join(dataDirectory(storePath), TEMPORARY_DIRECTORY);
}

export function logDirectory(storePath: string): string {
  return join(dataDirectory(storePath), LOG_DIRECTORY);
}

function fileDirectory(storePath: string, id: Pick<FileId, 'directory'>): string {
  return join(dataDirectory(storePath), id.directory[0], id.directory[1]);
}

export function filePath(storePath: string, id: Pick<FileId, 'directory' | 'base'>): string {
  return join(fileDirectory(storePath, id), id.base);
}

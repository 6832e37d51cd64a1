import { join, sep } from 'node:path';
import type { Disk } from '@stevedore/disk';
import type { FileId } from '@stevedore/protocol';

/** Names on disk; FORMAT.md describes them. */

export const STATE_FILE = '.stevedore-storage.json';
/** In a data directory, where there is a metadata tier: its records. */
export const RECORDS_FILE = '.stevedore-files.sqlite';
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

/** True if an earlier start has left records there. */
export function hasRecords(disk: Disk, storePath: string): Promise<boolean> {
  return disk.exists(join(dataDirectory(storePath), RECORDS_FILE));
}

/** Part of every request. A parsed name has no parts that lead elsewhere: nothing to normalize. */
export function filePath(storePath: string, id: Pick<FileId, 'directory' | 'base'>): string {
  const [high, low] = id.directory;
  return dataDirectory(storePath) + sep + high + sep + low + sep + id.base;
}

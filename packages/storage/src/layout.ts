import { join } from 'node:path';
import type { Disk } from '@stevedore/disk';

/** Names on disk; FORMAT.md describes them. */

export const STATE_FILE = '.stevedore-storage.json';
/** In a data directory with a metadata tier: its records. */
export const RECORDS_FILE = '.stevedore-files.sqlite';
/** In every data directory: the change journal. */
export const JOURNAL_FILE = '.stevedore-changes';
export const TEMPORARY_DIRECTORY = '.tmp';
/** In the first store path: the binlog and the replication state. */
const LOG_DIRECTORY = 'sync';
/** Suffix to a trunk's name: the list of its deleted slices. */
export const DELETED_SUFFIX = '-deleted';
/** Suffix to a file's name: its metadata. */
export const METADATA_SUFFIX = '-m';

/** Suffix to the name of a temporary file: it holds the body of a change. */
const PIECE_SUFFIX = '.piece';

export function pieceName(temporary: string): string {
  return temporary + PIECE_SUFFIX;
}

/** True for names that only the storage's own files have. */
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

/** True if the store path has records of a metadata tier. */
export function hasRecords(disk: Disk, storePath: string): Promise<boolean> {
  return disk.exists(join(dataDirectory(storePath), RECORDS_FILE));
}

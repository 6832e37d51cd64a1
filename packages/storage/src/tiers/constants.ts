/** Names and numbers of the metadata tier on disk; FORMAT.md describes them. */

/** In a store path's data directory. */
export const RECORDS_FILE = '.stevedore-files.sqlite';

/** Where the bytes of a file are. */
export const Place = {
  /** In its record. */
  row: 0,
  /** In a data file of its own on the store path. */
  file: 1,
  /** In a data file on I/O servers. */
  servers: 2,
  /** With a metadata server of another group. */
  guest: 3,
} as const;
export type Place = (typeof Place)[keyof typeof Place];

/** Copies at other metadata servers that are yet to be deleted; moves wait beyond. */
export const MAX_DEPARTURES = 100_000;

/** Parts of data files that are yet to be deleted at I/O servers; what is more is found as orphans. */
export const MAX_DELETIONS = 100_000;

/** Numbers of the metadata tier; FORMAT.md describes what is on the disk. */

/** Where the bytes of a file are. */
export const Place = {
  /** In its record. */
  row: 0,
  /** In a file of its own on the store path. */
  file: 1,
  /** At a FastDFS id in another group. */
  away: 2,
} as const;
export type Place = (typeof Place)[keyof typeof Place];

/**
 * Copies in other groups that are yet to be deleted, and copies that may or may not have
 * been stored; beyond these numbers no file leaves.
 */
export const MAX_DEPARTURES = 100_000;
export const MAX_OPEN_COPIES = 1000;

/** A row that has become hotter is written down as such; less is not worth a write. */
export const LEAST_HEATING = 0.1;

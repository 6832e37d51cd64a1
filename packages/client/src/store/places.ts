/** The places of a file's bytes, as `locate` returns them. */

export interface FilePlaces {
  /** Its bytes on this server's disk. Undefined if there are none. */
  readonly disk?: DiskPlace;
  /** Its bytes in FastDFS. Undefined while the file is only staged. */
  readonly trunk?: TrunkPlace;
  /** The storages of the trunk's group. */
  readonly storages: readonly CopyAtStorage[];
  /** Why the storages are unknown; undefined if they are known. */
  readonly problem?: string;
}

export interface DiskPlace {
  /** container: in a segment. spool: in a file of its own. */
  readonly at: 'container' | 'spool';
  /** Number of the segment. */
  readonly segment?: number;
}

export interface TrunkPlace {
  /** trunk: many files in one. whole: one large file, stored as it is. */
  readonly kind: 'trunk' | 'whole';
  /** FastDFS id of the trunk. */
  readonly fileId: string;
  /** Where the file begins in the trunk. */
  readonly offset: number;
  /** When FastDFS stored it, by the storage's clock, in whole seconds. */
  readonly storedAt: Date;
  /** Files in the trunk that are not deleted; undefined for a trunk of another server. */
  readonly files?: number;
  /** True once enough storages are known to have it; undefined for a trunk of another server. */
  readonly isConfirmed?: boolean;
  /** Since when that is known. A FileMap that was rebuilt knows it since then. */
  readonly confirmedAt?: Date;
}

export interface CopyAtStorage {
  /** `host:port` */
  readonly address: string;
  /** According to the tracker. */
  readonly active: boolean;
  /**
   * present: it has the trunk, with its size and CRC-32. differs: it has another file under this
   * id. absent: it has none. unknown: it does not answer.
   */
  readonly copy: 'present' | 'differs' | 'absent' | 'unknown';
}

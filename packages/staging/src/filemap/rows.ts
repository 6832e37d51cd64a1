import type { FileChange, FormerPlace, TrunkKind } from './changes.js';

/** What the FileMap tells of files and trunks. */

export interface FileRow {
  readonly key: Buffer;
  readonly name: string;
  readonly type: string;
  readonly group: string | null;
  readonly size: number;
  readonly crc32: number;
  /** Unix milliseconds. */
  readonly stagedAt: number;
  readonly segment: number;
  /** Where the body begins in the segment. */
  readonly position: number;
  /** 1: a large file whose bytes are in the spool; 2: one whose spool file is gone. */
  readonly spooled: 0 | 1 | 2;
  readonly trunk: number | null;
  /** Where the content begins in the trunk; null until it is confirmed. */
  readonly trunkOffset: number | null;
  readonly trunkKind: TrunkKind | null;
  /** FastDFS id of the trunk. */
  readonly trunkFileId: string | null;
  /** JSON of the FormerPlaces it was moved from; null for most. */
  readonly was: string | null;
  /** Unix milliseconds from which on it is gone; null for most. */
  readonly expiresAt: number | null;
}

/** The places in trunks that the file was moved from, oldest first. */
export function placesOf({ was }: Pick<FileRow, 'was'>): FormerPlace[] {
  return was === null ? [] : (JSON.parse(was) as FormerPlace[]);
}

/**
 * planned: members are fixed, sending may have begun. stored: FastDFS has it.
 * confirmed: every member's row points at it. retiring: nothing in it is alive, it is
 * being deleted from FastDFS. retired: that is done. abandoned: given up before it was
 * stored. missing: a record names it, its members are not known and FastDFS says that
 * it has no such file.
 */
export type TrunkState =
  | 'planned'
  | 'stored'
  | 'confirmed'
  | 'retiring'
  | 'retired'
  | 'abandoned'
  | 'missing';

export interface TrunkRow {
  readonly id: number;
  readonly taskId: Buffer;
  readonly kind: TrunkKind;
  readonly state: TrunkState;
  readonly fileId: string | null;
  readonly size: number;
  readonly crc32: number | null;
  readonly files: number;
  /** Bytes of its members' content, alive or dead; 0 until it is confirmed. */
  readonly contentBytes: number;
  readonly deadFiles: number;
  readonly deadBytes: number;
  readonly recordSegment: number;
  /** Unix milliseconds since when FastDFS may hold a copy that no record names; null if not. */
  readonly doubtfulSince: number | null;
  /** 1 once as many storages as asked for have it. */
  readonly copied: 0 | 1;
}

/** A copy that is not to be read: on this disk, or a slice or large file at a storage. */
export interface DamagedCopy {
  readonly key: Buffer;
  readonly place: DamagePlace;
  /** `host:port` of the storage; empty for this disk, or when all of them are meant. */
  readonly holder: string;
  /** Unix milliseconds. */
  readonly foundAt: number;
}

export type DamagePlace = 'container' | 'spool' | 'trunk';

/** A member as a trunk's directory tells it. */
export interface AdoptedFile {
  readonly file: Omit<FileChange, 'position' | 'spooled'>;
  /** Where its content begins in the trunk. */
  readonly offset: number;
  readonly was: readonly FormerPlace[];
}

/** Trunks of one state and kind together. */
export interface TrunkSum {
  readonly state: TrunkState;
  readonly kind: TrunkKind;
  readonly trunks: number;
  readonly bytes: number;
  readonly contentBytes: number;
  readonly deadFiles: number;
  readonly deadBytes: number;
}

import assert from 'node:assert';

/** Rows of the FileMap, and the changes that records of the container make in it. */

/** trunk: many files merged. whole: one large file, stored as it is. */
export type TrunkKind = 'trunk' | 'whole';

/** A former place of a file that was moved: id of the trunk, offset. */
export type FormerPlace = readonly [fileId: string, offset: number];

const NEVER_MOVED: readonly FormerPlace[] = [];

/** Decodes `files.was`. */
export function formerPlaces(was: string | null): readonly FormerPlace[] {
  return was === null ? NEVER_MOVED : (JSON.parse(was) as FormerPlace[]);
}

/** Encodes `files.was`. */
export function placesText(was: readonly FormerPlace[]): string | null {
  return was.length > 0 ? JSON.stringify(was) : null;
}

export interface FileRow {
  readonly key: Buffer;
  readonly name: string;
  readonly type: string;
  readonly group: string | undefined;
  readonly size: number;
  readonly crc32: number;
  /** Unix milliseconds. */
  readonly stagedAt: number;
  /** Unix milliseconds at which it expires; undefined for most. */
  readonly expiresAt: number | undefined;
  /** Mark of its upload, and of its place in it; see `once.ts`. */
  readonly once?: string | undefined;
  /** Key of the file that it was made of, for a derived file such as a picture in another size. */
  readonly pictureOf?: Buffer | undefined;
  /** Places in trunks that it was moved from, oldest first. */
  readonly was: readonly FormerPlace[];
  /** Its bytes on this disk: the only ones of a waiting file, a read copy of a merged one. */
  readonly local: LocalPlace;
  /** Its bytes in FastDFS; undefined while it waits. */
  readonly trunk: TrunkPlace | undefined;
}

export interface LocalPlace {
  /**
   * container: in a segment, which may be removed once the file is merged. spool: a large file, or
   * a damaged one. gone: a large file that is only in FastDFS.
   */
  readonly at: 'container' | 'spool' | 'gone';
  /** Segment of its record; 0 for none. */
  readonly segment: number;
  /** Where the body of its record begins in the segment. */
  readonly position: number;
}

/** A file in FastDFS. */
export type MergedRow = FileRow & { readonly trunk: TrunkPlace };

export function isMerged(row: FileRow): row is MergedRow {
  return row.trunk !== undefined;
}

export interface TrunkPlace {
  readonly id: number;
  readonly kind: TrunkKind;
  /** FastDFS id of the trunk. */
  readonly fileId: string;
  /** Where the content begins in the trunk. */
  readonly offset: number;
  /** The trunk may be joined with others: the file will move and has no id yet. */
  readonly isThin: boolean;
}

/**
 * planned: members are fixed, sending may have begun. stored: FastDFS has it. confirmed: every
 * member's row points at it. retiring: nothing in it is alive, it is being deleted from FastDFS.
 * retired: it was deleted. abandoned: given up before it was stored. missing: a record names it,
 * its members are unknown, and FastDFS has no such file.
 */
export type TrunkState =
  | 'planned'
  | 'stored'
  | 'confirmed'
  | 'retiring'
  | 'retired'
  | 'abandoned'
  | 'missing';

/**
 * What each state may change to. The FileMap refuses every other change. A record read again, after
 * a crash or in a rebuild, may tell of what comes later: so each can change to retiring.
 */
export const NEXT_STATES: Readonly<Record<TrunkState, readonly TrunkState[]>> = {
  // Given up with a damaged member.
  planned: ['stored', 'abandoned', 'retiring'],
  // FastDFS turned out to have it, or not to have it.
  abandoned: ['stored', 'retired', 'retiring'],
  // Its directory could not be read: FastDFS has lost it.
  stored: ['confirmed', 'missing', 'retiring'],
  missing: ['stored', 'confirmed', 'retiring'],
  confirmed: ['retiring'],
  retiring: ['retired'],
  retired: [],
};

/** As what a file is counted: it waits in the container, or in the spool, or is in FastDFS. */
export type FileState = 'waiting' | 'spooled' | 'merged';

/** What each may change to; `none`: it is not there yet, or deleted. */
export const NEXT_FILE_STATES: Readonly<
  Record<FileState | 'none', readonly (FileState | 'none')[]>
> = {
  none: ['waiting', 'spooled'],
  // A damaged one is set aside in the spool.
  waiting: ['waiting', 'spooled', 'merged', 'none'],
  spooled: ['waiting', 'spooled', 'merged', 'none'],
  // It moves to another trunk.
  merged: ['waiting', 'spooled', 'none'],
};

export function stateOf({ trunk, local }: FileRow): FileState {
  return trunk ? 'merged' : stateAt(local.at);
}

/** The state of a file that waits. */
export function stateAt(at: FileRow['local']['at']): FileState {
  return at === 'container' ? 'waiting' : 'spooled';
}

export interface TrunkRow {
  readonly id: number;
  readonly taskId: Buffer;
  readonly kind: TrunkKind;
  readonly state: TrunkState;
  /** Empty before it is stored. */
  readonly fileId: string;
  readonly size: number;
  readonly crc32: number | null;
  readonly files: number;
  /** Bytes of its members' content, alive or dead; 0 until it is confirmed. */
  readonly contentBytes: number;
  readonly deadFiles: number;
  readonly deadBytes: number;
  readonly recordSegment: number;
  /** How often its files were written, if it may be joined with others; else 0. */
  readonly thin: number;
  /** When the oldest file of a thin trunk was staged, in Unix milliseconds. */
  readonly oldestAt: number | null;
  /** Since when enough storages are known to have it, in Unix milliseconds; 0: they are not. */
  readonly copied: number;
  /** Unix milliseconds since when FastDFS may hold a copy without a record; null if not. */
  readonly doubtfulSince: number | null;
}

/** Nothing in it is alive: it was deleted from FastDFS, or is about to be. */
export function isGivenUp({ state }: Pick<TrunkRow, 'state'>): boolean {
  return state === 'retiring' || state === 'retired';
}

/** Totals of the trunks of one state and kind. */
export interface TrunkSum {
  readonly state: TrunkState;
  readonly kind: TrunkKind;
  readonly trunks: number;
  readonly bytes: number;
  readonly deadFiles: number;
  readonly deadBytes: number;
}

/** A copy that must not be read: on this disk, or a slice or large file at a storage. */
export interface DamagedCopy {
  readonly key: Buffer;
  readonly place: DamagePlace;
  /** `host:port` of the storage; empty for this disk or for all storages. */
  readonly holder: string;
  /** Unix milliseconds. */
  readonly foundAt: number;
}

export type DamagePlace = 'container' | 'spool' | 'trunk';

/** Place under which a damaged local copy of the file is listed. */
export function localDamage({ local }: Pick<FileRow, 'local'>): 'container' | 'spool' {
  return local.at === 'container' ? 'container' : 'spool';
}

/**
 * Files and their bytes: small and waiting, large and waiting, stored in FastDFS; and how many of
 * those that wait, and of those in FastDFS, are derived.
 */
export const NO_FILES = {
  waitingFiles: 0,
  waitingBytes: 0,
  spooledFiles: 0,
  spooledBytes: 0,
  mergedFiles: 0,
  mergedBytes: 0,
  derivedStagedFiles: 0,
  derivedStagedBytes: 0,
  derivedMergedFiles: 0,
  derivedMergedBytes: 0,
};

export type Counters = Readonly<typeof NO_FILES>;

export interface PlannedTrunk {
  /** Set if it may be joined with others later; undefined: it is final. */
  readonly thin?: Thin | undefined;
  /** When its last file expires, in Unix milliseconds; undefined: one never does. */
  readonly lastExpiry?: number | undefined;
}

/** A thin trunk: it may be joined with others. */
export interface Thin {
  /** How often its files have been written to FastDFS: 1 for new ones. */
  readonly level: number;
  /** When the oldest of them was staged, in Unix milliseconds. */
  readonly oldestAt: number;
}

export interface PlannedMember {
  readonly key: Buffer;
  /** Where the content begins in the trunk. */
  readonly offset: number;
  /** Bytes of content. */
  readonly size: number;
  /** Of a staged small file: where it was when the trunk was planned. */
  readonly segment?: number | undefined;
}

/** Members whose rows now point at their trunk. */
export interface Confirmed {
  readonly files: number;
  readonly bytes: number;
  /** The oldest segment with any of them; Infinity if there is none. */
  readonly oldestSegment: number;
}

export const NONE_CONFIRMED: Confirmed = { files: 0, bytes: 0, oldestSegment: Infinity };

export function sumOf(one: Confirmed, other: Confirmed): Confirmed {
  return {
    files: one.files + other.files,
    bytes: one.bytes + other.bytes,
    oldestSegment: Math.min(one.oldestSegment, other.oldestSegment),
  };
}

/** A member as described by a trunk's directory. */
export interface AdoptedFile {
  readonly file: Omit<FileChange, 'position' | 'at'>;
  /** Where its content begins in the trunk. */
  readonly offset: number;
  readonly was: readonly FormerPlace[];
}

/** What a record says about a file whose bytes are in it or in the spool. */
export interface FileChange {
  readonly key: Buffer;
  readonly name: string;
  readonly type: string;
  readonly group: string | undefined;
  readonly expiresAt?: number | undefined;
  readonly once?: string | undefined;
  readonly pictureOf?: Buffer | undefined;
  readonly size: number;
  readonly crc32: number;
  /** Unix milliseconds. */
  readonly stagedAt: number;
  /** Where the body begins in the segment. */
  readonly position: number;
  readonly at: 'container' | 'spool';
  /** CRC-32s of its blocks, for a large file. */
  readonly blocks?: Buffer | undefined;
}

export type FileMapChange =
  | (FileChange & { readonly what: 'file' })
  | (FileChange & { readonly what: 'moved'; readonly was: readonly FormerPlace[] })
  | { readonly what: 'deletion'; readonly key: Buffer }
  | {
      readonly what: 'plan';
      readonly taskId: Buffer;
      readonly kind: TrunkKind;
      /** Bytes of the trunk. */
      readonly size: number;
      readonly members: PackedMembers;
    }
  | (TrunkChange & {
      readonly what: 'stored';
      readonly crc32: number;
      /** CRC-32s of its blocks, for a file that was stored whole. */
      readonly blocks?: Buffer | undefined;
      /** The file itself, when it was stored whole. */
      readonly file:
        | (Omit<FileChange, 'position' | 'at'> & { readonly was: readonly FormerPlace[] })
        | undefined;
    })
  | (TrunkChange & { readonly what: 'retired' });

/** What a record says about a trunk in FastDFS. */
export interface TrunkChange {
  readonly taskId: Buffer;
  readonly kind: TrunkKind;
  readonly fileId: string;
  readonly size: number;
  readonly files: number;
  /** When it was recorded, if FastDFS may hold another copy. */
  readonly doubtfulSince?: number | undefined;
}

/** Key, offset and size of each member, as in plan records and the FileMap. */
export type PackedMembers = Buffer;

const MEMBER_BYTES = 26;

export function packMembers(members: readonly PlannedMember[]): PackedMembers {
  const packed = Buffer.allocUnsafe(members.length * MEMBER_BYTES);
  let at = 0;
  let end = 0;
  for (const { key, offset, size } of members) {
    assert(offset >= end, 'the files of a trunk overlap');
    end = offset + size;
    packed.set(key, at);
    packed.writeUInt32LE(offset, at + 16);
    packed.writeUIntLE(size, at + 20, 6);
    at += MEMBER_BYTES;
  }
  return packed;
}

export function countOf(packed: PackedMembers): number {
  return Math.floor(packed.length / MEMBER_BYTES);
}

export function unpackMembers(packed: PackedMembers): PlannedMember[] {
  const members: PlannedMember[] = [];
  for (let at = 0; at + MEMBER_BYTES <= packed.length; at += MEMBER_BYTES) {
    members.push({
      key: packed.subarray(at, at + 16),
      offset: packed.readUInt32LE(at + 16),
      size: packed.readUIntLE(at + 20, 6),
    });
  }
  return members;
}

/** The columns of a file that do not change while it moves; `factsIn` has their values. */
export const FACTS = 'key, name, type, grp, size, crc32, stagedAt, expiresAt, once, pictureOf';
export const FACT_VALUES =
  '$key, $name, $type, $group, $size, $crc32, $stagedAt, $expiresAt, $once, $pictureOf';

export function factsIn(file: AdoptedFile['file']) {
  const { key, name, type, size, crc32, stagedAt } = file;
  return {
    key,
    name,
    type,
    size,
    crc32,
    stagedAt,
    group: file.group ?? null,
    expiresAt: file.expiresAt ?? null,
    once: file.once === undefined ? null : Buffer.from(file.once, 'base64url'),
    pictureOf: file.pictureOf ?? null,
  };
}

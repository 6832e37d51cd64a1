/** What a record of the container changes in the FileMap. */

/** trunk: many files merged. whole: one large file, stored as it is. */
export type TrunkKind = 'trunk' | 'whole';

export interface PlannedMember {
  readonly key: Buffer;
  /** Where the content begins in the trunk. */
  readonly offset: number;
  /** Bytes of content. */
  readonly size: number;
}

/** A place that a file had in a trunk before it was moved: id of the trunk, offset. */
export type FormerPlace = readonly [fileId: string, offset: number];

/** What a record says of a file whose bytes are in it or in the spool. */
export interface FileChange {
  readonly key: Buffer;
  readonly name: string;
  readonly type: string;
  readonly group: string | undefined;
  readonly expiresAt?: number | undefined;
  readonly once?: string | undefined;
  readonly size: number;
  readonly crc32: number;
  /** Unix milliseconds. */
  readonly stagedAt: number;
  /** Where the body begins in the segment. */
  readonly position: number;
  readonly spooled: boolean;
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
      readonly members: readonly PlannedMember[];
    }
  | {
      readonly what: 'stored';
      readonly taskId: Buffer;
      readonly kind: TrunkKind;
      readonly fileId: string;
      readonly size: number;
      readonly crc32: number;
      readonly files: number;
      /** When it was recorded, if another copy may be in FastDFS. */
      readonly doubtfulSince?: number | undefined;
      /** CRC-32s of its blocks, for a file that was stored whole. */
      readonly blocks?: Buffer | undefined;
      /** The file itself, when it was stored whole. */
      readonly file:
        | (Omit<FileChange, 'position' | 'spooled'> & { readonly was: readonly FormerPlace[] })
        | undefined;
    }
  | {
      readonly what: 'retired';
      readonly taskId: Buffer;
      readonly kind: TrunkKind;
      readonly fileId: string;
      readonly size: number;
      readonly files: number;
      /** As for `stored`. */
      readonly doubtfulSince?: number | undefined;
    };

/** Key, offset and size of a member, as plan records and the FileMap pack them. */
const MEMBER_BYTES = 26;

export function packMembers(members: readonly PlannedMember[]): Buffer {
  const packed = Buffer.allocUnsafe(members.length * MEMBER_BYTES);
  for (const [index, { key, offset, size }] of members.entries()) {
    const at = index * MEMBER_BYTES;
    key.copy(packed, at);
    packed.writeUInt32LE(offset, at + 16);
    packed.writeUIntLE(size, at + 20, 6);
  }
  return packed;
}

export function unpackMembers(packed: Buffer): PlannedMember[] {
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

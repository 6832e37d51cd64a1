import {
  encodeDirectoryEntry,
  encodeEnd,
  encodeLocalHeader,
  endBytes,
  extensionOf,
  localHeaderBytes,
  memberBytes,
  type TrunkMember,
} from '@stevedore/protocol';
import type { FileRow } from '../filemap/filemap.js';
import type { PlannedMember, TrunkKind } from '../filemap/rows.js';
import { formatKey } from '../key.js';

/**
 * The layout of a trunk: which files, in which order, at which offsets, and all
 * bytes around them. Pure; TRUNK.md of @stevedore/protocol has the format.
 */
export interface TrunkPlan {
  readonly taskId: Buffer;
  readonly kind: TrunkKind;
  /** Extension under which it is stored. */
  readonly extension: string;
  readonly rows: readonly FileRow[];
  readonly members: readonly PlannedMember[];
  /** Bytes of the whole trunk. */
  readonly size: number;
}

/** Name of the file's entry: key and extension. */
function entryName(row: Pick<FileRow, 'key' | 'name'>): string {
  const extension = extensionOf(row.name);
  return extension === '' ? formatKey(row.key) : `${formatKey(row.key)}.${extension}`;
}

/** Bytes that the file adds to a trunk. */
export function bytesInTrunk(row: FileRow): number {
  return memberBytes(entryName(row).length, Buffer.byteLength(entryComment(row)), row.size);
}

/** Bytes that every trunk has beside its members. */
export const TRUNK_END_BYTES = endBytes(trunkComment(Buffer.alloc(16)).length);

export function planTrunk(taskId: Buffer, rows: readonly FileRow[], extension: string): TrunkPlan {
  const members: PlannedMember[] = [];
  let at = 0;
  let directoryBytes = 0;
  for (const row of rows) {
    const header = localHeaderBytes(entryName(row).length);
    members.push({ key: row.key, offset: at + header, size: row.size });
    at += header + row.size;
    directoryBytes += bytesInTrunk(row) - header - row.size;
  }
  const size = at + directoryBytes + TRUNK_END_BYTES;
  return { taskId, kind: 'trunk', extension, rows, members, size };
}

/** A large file goes to FastDFS as it is. */
export function planWhole(taskId: Buffer, row: FileRow): TrunkPlan {
  return {
    taskId,
    kind: 'whole',
    extension: extensionOf(row.name),
    rows: [row],
    members: [{ key: row.key, offset: 0, size: row.size }],
    size: row.size,
  };
}

function memberOf(row: FileRow): TrunkMember {
  return {
    name: entryName(row),
    size: row.size,
    crc32: row.crc32,
    modifiedAt: new Date(row.stagedAt),
    comment: entryComment(row),
  };
}

/** Everything behind the last file's bytes: directory and end record. */
export function encodeDirectory(plan: TrunkPlan): Buffer {
  const entries = plan.rows.map((row, index) => {
    const header = localHeaderBytes(entryName(row).length);
    return encodeDirectoryEntry(memberOf(row), plan.members[index]!.offset - header);
  });
  const directory = Buffer.concat(entries);
  const offset = plan.size - directory.length - TRUNK_END_BYTES;
  const end = encodeEnd(entries.length, offset, directory.length, trunkComment(plan.taskId));
  return Buffer.concat([directory, end]);
}

export function encodeMemberHeader(row: FileRow): Buffer {
  return encodeLocalHeader(memberOf(row));
}

function entryComment(row: FileRow): string {
  const { name, type, group, stagedAt, was, expiresAt } = row;
  return JSON.stringify({
    name,
    type,
    ...(group === undefined ? {} : { group }),
    stagedAt,
    ...(expiresAt === undefined ? {} : { expires: expiresAt }),
    ...(was.length === 0 ? {} : { was }),
  });
}

function trunkComment(taskId: Buffer): string {
  return JSON.stringify({ stevedore: 1, taskId: taskId.toString('base64url') });
}

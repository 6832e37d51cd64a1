import assert from 'node:assert';
import { crc32 } from 'node:zlib';
import {
  decodeSizeField,
  encodeEnd,
  endBytes,
  extensionOf,
  type FileId,
  isSmallNormalSizeField,
  isTrunkId,
  localHeaderBytes,
  makeSliceId,
  memberBytes,
  mostEntryBytes,
  parseFileId,
  TRUNK_EXTENSION,
  type TrunkMember,
  writeDirectoryEntry,
  writeLocalHeader,
} from '@stevedore/protocol';
import type { NewFile } from '../container/records.js';
import { aboutOf } from '../filemap/about.js';
import type { FileRow } from '../filemap/filemap.js';
import type { PlannedMember, PlannedTrunk, TrunkKind } from '../filemap/rows.js';
import { formatKey, KEY_CHARS } from '../key.js';

/**
 * The layout of a trunk: its files, their order and offsets, and all bytes around them. Does no
 * I/O. TRUNK.md of @stevedore/protocol describes the format.
 */
export interface TrunkPlan extends PlannedTrunk {
  readonly taskId: Buffer;
  readonly kind: TrunkKind;
  /** Extension under which it is stored. */
  readonly extension: string;
  readonly rows: readonly FileRow[];
  readonly members: readonly PlannedMember[];
  /** Bytes of the whole trunk. */
  readonly size: number;
}

function entryNameBytes({ name }: Pick<FileRow, 'name'>): number {
  const extension = extensionOf(name);
  return extension === '' ? KEY_CHARS : KEY_CHARS + 1 + extension.length;
}

/** Bytes that the file adds to a trunk. */
export function bytesInTrunk(row: FileRow): number {
  return memberBytes(entryNameBytes(row), Buffer.byteLength(aboutOf(row)), row.size);
}

/** Bytes of a trunk in addition to its members. */
export const TRUNK_END_BYTES = endBytes(trunkComment(Buffer.alloc(16)).length);

/** `bytes`: what the files add to the trunk, if that is known. */
export function planTrunk(
  taskId: Buffer,
  rows: readonly FileRow[],
  extension: string,
  bytes = rows.reduce((sum, row) => sum + bytesInTrunk(row), 0),
): TrunkPlan {
  const members: PlannedMember[] = [];
  let at = 0;
  let lastExpiry = 0;
  for (const row of rows) {
    lastExpiry = Math.max(lastExpiry, row.expiresAt ?? Infinity);
    const header = memberHeaderBytes(row);
    const segment = row.local.at === 'container' ? row.local.segment : undefined;
    members.push({ key: row.key, offset: at + header, size: row.size, segment });
    at += header + row.size;
  }
  const size = bytes + TRUNK_END_BYTES;
  const plan = { taskId, kind: 'trunk', extension, rows, members, size } as const;
  return Number.isFinite(lastExpiry) ? { ...plan, lastExpiry } : plan;
}

/** The plan of a large file, which is stored unchanged. */
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

function entryOf(row: FileRow, comment: string): TrunkMember {
  const { size, crc32, stagedAt } = row;
  const extension = extensionOf(row.name);
  const name = extension === '' ? formatKey(row.key) : `${formatKey(row.key)}.${extension}`;
  return { name, size, crc32, modifiedAt: new Date(stagedAt), comment };
}

/** Entries encoded at a time. */
const DIRECTORY_PAGE = 500;

/** Yields what follows the last file's bytes: directory and end record. */
export function* encodeDirectory({ rows, members, size, taskId }: TrunkPlan): Generator<Buffer> {
  let bytes = 0;
  for (let from = 0; from < rows.length; from += DIRECTORY_PAGE) {
    const entries = rows
      .slice(from, from + DIRECTORY_PAGE)
      .map((row) => entryOf(row, aboutOf(row)));
    const most = entries.reduce((sum, entry) => sum + mostEntryBytes(entry), 0);
    const piece = Buffer.allocUnsafeSlow(most);
    let at = 0;
    for (const [index, entry] of entries.entries()) {
      const header = localHeaderBytes(entry.name.length);
      at += writeDirectoryEntry(piece, at, entry, members[from + index]!.offset - header);
    }
    bytes += at;
    yield piece.subarray(0, at);
  }
  const offset = size - bytes - TRUNK_END_BYTES;
  const last = members.at(-1);
  assert(
    offset === (last ? last.offset + last.size : 0),
    'the trunk has another size than planned',
  );
  yield encodeEnd(rows.length, offset, bytes, trunkComment(taskId));
}

/** Writes what stands before the file's bytes; returns its length. */
export function writeMemberHeader(target: Buffer, at: number, row: FileRow): number {
  return writeLocalHeader(target, at, entryOf(row, ''));
}

/** Bytes of what stands before the file's bytes. */
export function memberHeaderBytes(row: FileRow): number {
  return localHeaderBytes(entryNameBytes(row));
}

function trunkComment(taskId: Buffer): string {
  return JSON.stringify({ stevedore: 1, taskId: taskId.toString('base64url') });
}

/**
 * A trunk of files that are in memory and never were in the container: the same format, with a task
 * that no FileMap knows. Does no I/O.
 */
export interface DirectTrunk {
  /** Bytes of the trunk, and their CRC-32. */
  readonly size: number;
  readonly crc32: number;
  readonly extension: string;
  readonly chunks: readonly Uint8Array[];
  /** Ids of the files, in order, given the trunk's id; undefined for a file that can have none. */
  sliceIds(trunkFileId: string): readonly (string | undefined)[];
}

/** Every file must have a body. */
export function directTrunk(taskId: Buffer, files: readonly NewFile[]): DirectTrunk {
  const rows = files.map(rowOf);
  const plan = planTrunk(taskId, rows, TRUNK_EXTENSION);
  const chunks: Uint8Array[] = [];
  for (const [index, row] of rows.entries()) {
    const header = Buffer.allocUnsafe(memberHeaderBytes(row));
    writeMemberHeader(header, 0, row);
    chunks.push(header, ...files[index]!.body);
  }
  chunks.push(...encodeDirectory(plan));
  return {
    size: plan.size,
    crc32: chunks.reduce((sum, chunk) => crc32(chunk, sum), 0),
    extension: plan.extension,
    chunks,
    sliceIds: (trunkFileId) =>
      rows.map((row, index) => sliceIdOf(row, trunkFileId, plan.members[index]!.offset)),
  };
}

function rowOf(file: NewFile): FileRow {
  const { key, name, type, group, size, stagedAt, expiresAt, once, pictureOf } = file;
  const about = { key, name, type, group, size, crc32: file.crc32, stagedAt, expiresAt };
  const local = { at: 'container', segment: 0, position: 0 } as const;
  return { ...about, once, pictureOf, was: [], local, trunk: undefined };
}

/**
 * The FastDFS id of a merged file: its trunk's own for a large file, a slice id for all others.
 * Undefined while the file has none: because its trunk is thin and may be joined with others, or
 * because the trunk's id cannot carry slice ids, as in a cluster that merges by itself. Such a file
 * is read by key.
 */
export function fileIdOf(row: FileRow): string | undefined {
  const { trunk } = row;
  if (trunk?.isThin) return undefined;
  if (!trunk || trunk.kind === 'whole') return trunk?.fileId;
  return sliceIdOf(row, trunk.fileId, trunk.offset);
}

/**
 * The slice id of a file at this offset of a trunk; undefined if the trunk's id cannot carry one.
 */
export function sliceIdOf(
  row: Pick<FileRow, 'name' | 'size' | 'crc32'>,
  trunkFileId: string,
  offset: number,
): string | undefined {
  const trunk = parseFileId(trunkFileId);
  if (!trunk || !canHoldSlices(trunk)) return undefined;
  const entry = { offset, size: row.size, crc32: row.crc32 };
  return makeSliceId(trunk, entry, extensionOf(row.name));
}

/** True if slice ids can be made from the id of a trunk. */
export function canHoldSlices(id: FileId): boolean {
  return isTrunkId(id) && isSmallNormalSizeField(decodeSizeField(id.base));
}

import { crc32 } from 'node:zlib';
import type {
  FileChange,
  FileMapChange,
  FileRow,
  FormerPlace,
  PlannedMember,
  TrunkChange,
  TrunkKind,
} from '../filemap/rows.js';
import { packMembers } from '../filemap/rows.js';
import { BLOCK_BYTES } from './block-checksums.js';
import type { NewRecord } from './record.js';
import { RecordType } from './record.js';

/** The kinds of records: how each is encoded, and what it changes in the FileMap. */

export interface FileMeta {
  readonly name: string;
  readonly type: string;
  readonly group: string | undefined;
  /** Unix milliseconds at which the file expires; absent for most. */
  readonly expiresAt?: number | undefined;
  /** Mark of the upload, as text; see `once.ts`. An upload sent twice becomes one file. */
  readonly once?: string | undefined;
  /** Key of the file that a derived one was made of. */
  readonly pictureOf?: Buffer | undefined;
}

/** A file to stage. It keeps this shape on its way: as a record, and as a change of the FileMap. */
export interface NewFile extends FileChange {
  readonly what: 'file';
  /** Settled once the last file of its upload has arrived, and so are the next two. */
  group: string | undefined;
  once: string | undefined;
  expiresAt: number | undefined;
  /** Set when its record is written. */
  position: number;
  /** The bytes; empty for a spooled file. */
  readonly body: readonly Uint8Array[];
}

/** What is known of a file before it is staged. */
export type FileFacts = Omit<FileChange, 'position' | 'at' | 'blocks'>;

/** A file whose record has its bytes. */
export function smallFile(facts: FileFacts, body: readonly Uint8Array[]): NewFile {
  return newFile(facts, 'container', body, undefined);
}

/** A file that is in the spool, with the CRC-32s of its blocks. */
export function spooledFile(facts: FileFacts, blocks?: Buffer): NewFile {
  return newFile(facts, 'spool', [], blocks);
}

/** Property by property: a spread behind others is copied by the runtime, for microseconds. */
function newFile(
  { key, name, type, group, expiresAt, once, pictureOf, size, crc32, stagedAt }: FileFacts,
  at: NewFile['at'],
  body: readonly Uint8Array[],
  blocks: Buffer | undefined,
): NewFile {
  return {
    what: 'file',
    key,
    name,
    type,
    group,
    expiresAt,
    once,
    pictureOf,
    size,
    crc32,
    stagedAt,
    position: 0,
    at,
    body,
    blocks,
  };
}

export interface StoredTrunk extends Omit<TrunkChange, 'doubtfulSince'> {
  readonly crc32: number;
  /** FastDFS may hold another copy. */
  readonly doubtful: boolean;
  /** CRC-32s of the blocks of a file stored whole. */
  readonly blocks?: Buffer | undefined;
  /** For a file stored whole: what a trunk's directory would contain. */
  readonly file?: (FileMeta & Pick<FileRow, 'key' | 'stagedAt' | 'was'>) | undefined;
}

const NO_BODY = { body: [], bodyBytes: 0 } as const;

/** Bytes of its record's body. */
export function bodyBytesOf(entry: NewFile | NewRecord): number {
  if (!('what' in entry)) return entry.bodyBytes;
  return entry.at === 'container' ? entry.size : (entry.blocks?.length ?? 0);
}

export function fileRecord(file: NewFile): NewRecord {
  const { key, size, stagedAt, at, body, blocks } = file;
  const meta = metaOf(file);
  if (blocks) meta.blockBytes = BLOCK_BYTES;
  return {
    type: at === 'container' ? RecordType.file : RecordType.spooledFile,
    key,
    meta,
    body: blocks ? [blocks] : body,
    bodyBytes: bodyBytesOf(file),
    size,
    time: stagedAt,
    crc32: file.crc32,
  };
}

/** Runs for every upload, so it avoids spreads, which cost several times as much. */
function metaOf(file: FileMeta): Record<string, unknown> {
  const { name, type, group, expiresAt, once, pictureOf } = file;
  const meta: Record<string, unknown> = { name, type };
  if (group !== undefined) meta.group = group;
  if (expiresAt !== undefined) meta.expires = expiresAt;
  if (once !== undefined) meta.once = once;
  if (pictureOf) meta.pictureOf = pictureOf.toString('base64url');
  return meta;
}

export function deletionRecord(key: Buffer, now: number): NewRecord {
  return {
    type: RecordType.deletion,
    key,
    meta: {},
    ...NO_BODY,
    size: 0,
    time: now,
    crc32: 0,
  };
}

export function planRecord(
  plan: Pick<StoredTrunk, 'taskId' | 'kind' | 'size'> & { members: readonly PlannedMember[] },
  now: number,
): NewRecord {
  const body = packMembers(plan.members);
  return {
    type: RecordType.plan,
    key: plan.taskId,
    meta: { kind: plan.kind },
    body: [body],
    bodyBytes: body.length,
    size: plan.size,
    time: now,
    crc32: crc32(body),
  };
}

export function storedRecord(trunk: StoredTrunk, now: number): NewRecord {
  const { kind, fileId, files, file, blocks } = trunk;
  const member = file && {
    ...metaOf(file),
    stagedAt: file.stagedAt,
    member: file.key.toString('base64url'),
    ...(file.was.length === 0 ? {} : { was: file.was }),
  };
  return {
    type: RecordType.stored,
    key: trunk.taskId,
    meta: {
      kind,
      fileId,
      files,
      ...member,
      ...(trunk.doubtful ? { doubtful: true } : {}),
      ...blockMeta(blocks),
    },
    body: blocks ? [blocks] : [],
    bodyBytes: blocks?.length ?? 0,
    size: trunk.size,
    time: now,
    crc32: trunk.crc32,
  };
}

/** Nothing in the trunk is alive: from now on it is no file's place. */
export function retiredRecord(trunk: Omit<StoredTrunk, 'file'>, now: number): NewRecord {
  return { ...storedRecord(trunk, now), type: RecordType.retired };
}

/** Block length of the checksums in the record's body. */
function blockMeta(blocks: Buffer | undefined): { blockBytes?: number } {
  return blocks ? { blockBytes: BLOCK_BYTES } : {};
}

/** The record of a stored file whose bytes are in the container or the spool again. */
export function movedRecord(file: NewFile, was: readonly FormerPlace[]): NewRecord {
  const record = fileRecord(file);
  const type = file.at === 'container' ? RecordType.movedFile : RecordType.spooledFile;
  return { ...record, type, meta: { ...record.meta, was } };
}

/** A record, new or read back. */
type RecordContent = Omit<NewRecord, 'body' | 'bodyBytes'>;

/**
 * What the record changes in the FileMap. `body` is the whole body of a record that is not a file;
 * `position` is where the body begins.
 */
export function changeOfRecord(
  record: RecordContent,
  body: Buffer | undefined,
  position: number,
): FileMapChange {
  const { key, size } = record;
  const meta = record.meta as Readonly<Record<string, unknown>>;
  const kind: TrunkKind = meta.kind === 'whole' ? 'whole' : 'trunk';
  switch (record.type) {
    case RecordType.deletion:
      return { what: 'deletion', key };
    case RecordType.plan:
      return { what: 'plan', taskId: key, kind, size, members: body! };
    case RecordType.stored:
    case RecordType.retired: {
      const about = {
        taskId: key,
        kind,
        size,
        fileId: String(meta.fileId),
        files: Number(meta.files),
        doubtfulSince: meta.doubtful === true ? record.time : undefined,
      };
      if (record.type === RecordType.retired) return { what: 'retired', ...about };
      const { crc32 } = record;
      const file = kind === 'whole' ? wholeFile(record, meta) : undefined;
      return { what: 'stored', ...about, crc32, blocks: readBlocks(body, meta), file };
    }
    default: {
      const file = fileOf(record, meta, body, position);
      const isMoved = record.type === RecordType.movedFile || meta.was !== undefined;
      return isMoved ? { ...file, what: 'moved', was: readPlaces(meta.was) } : file;
    }
  }
}

/** The places of `was` in a meta block or a directory entry's comment. */
export function readPlaces(value: unknown): FormerPlace[] {
  if (!Array.isArray(value)) return [];
  return value.filter(
    (place): place is FormerPlace =>
      Array.isArray(place) && typeof place[0] === 'string' && typeof place[1] === 'number',
  );
}

function fileOf(
  record: RecordContent,
  meta: Readonly<Record<string, unknown>>,
  body: Buffer | undefined,
  position: number,
): FileChange & { readonly what: 'file' } {
  const { name, type, group, expiresAt, once, pictureOf } = readFileMeta(meta);
  return {
    what: 'file',
    name,
    type,
    group,
    expiresAt,
    once,
    pictureOf,
    key: record.key,
    size: record.size,
    crc32: record.crc32,
    stagedAt: record.time,
    position,
    at: record.type === RecordType.spooledFile ? 'spool' : 'container',
    blocks: record.type === RecordType.spooledFile ? readBlocks(body, meta) : undefined,
  };
}

/** Also undefined if the block length is not the one that this version uses. */
function readBlocks(
  body: Buffer | undefined,
  meta: Readonly<Record<string, unknown>>,
): Buffer | undefined {
  return meta.blockBytes === BLOCK_BYTES ? body : undefined;
}

function wholeFile(record: RecordContent, meta: Readonly<Record<string, unknown>>) {
  if (typeof meta.member !== 'string') return undefined;
  return {
    ...readFileMeta(meta),
    key: Buffer.from(meta.member, 'base64url'),
    size: record.size,
    crc32: record.crc32,
    stagedAt: Number(meta.stagedAt),
    was: readPlaces(meta.was),
  };
}

/** What a meta block or a directory comment says of a file. */
export function readFileMeta(meta: Readonly<Record<string, unknown>>): FileMeta {
  return {
    name: String(meta.name ?? ''),
    type: String(meta.type ?? ''),
    group: typeof meta.group === 'string' ? meta.group : undefined,
    expiresAt: typeof meta.expires === 'number' ? meta.expires : undefined,
    once: typeof meta.once === 'string' ? meta.once : undefined,
    pictureOf:
      typeof meta.pictureOf === 'string' ? Buffer.from(meta.pictureOf, 'base64url') : undefined,
  };
}

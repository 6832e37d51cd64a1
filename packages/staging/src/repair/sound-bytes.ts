import { setTimeout as sleep } from 'node:timers/promises';
import { crc32 } from 'node:zlib';
import { BlockChecksums, isBlockListOf } from '../container/block-checksums.js';
import type { Container } from '../container/container.js';
import { deletionRecord, movedRecord, smallFile, spooledFile } from '../container/records.js';
import { Unreadable } from '../container/segment.js';
import { isStoreError, StoreError } from '../errors.js';
import type { FileMap, FileRow, MergedRow, TrunkRow } from '../filemap/filemap.js';
import { isLocked } from '../filemap/locks.js';
import { type FormerPlace, isGivenUp } from '../filemap/rows.js';
import type { TrunkStore } from '../merge/trunk-store.js';
import type { State } from '../state.js';

/**
 * The basis of checks and repairs: which copies of a file are sound, and its bytes from one of
 * them. Damaged copies are quarantined.
 */
/** Aborts the work, if there is one. */
export type Signal = AbortSignal | undefined;

/** One ranged read of a large file. */
export const PART_BYTES = 2 ** 20;

/** True if the storage's copy is sound. Also learns the block checksums. */
export async function isSoundAt(
  state: State,
  row: MergedRow,
  holder: string | undefined,
  signal: Signal,
  onBytes: (bytes: number) => Promise<void> = () => Promise.resolve(),
): Promise<boolean> {
  const checksums = new BlockChecksums();
  const { trunk } = row;
  for (let at = 0; at < row.size; at += PART_BYTES) {
    const count = Math.min(PART_BYTES, row.size - at);
    const offset = trunk.offset + at;
    const bytes = await readTrunk(state.trunkStore, trunk, offset, count, signal, holder);
    if (bytes?.length !== count) return false;
    checksums.add(bytes);
    await onBytes(count);
  }
  if (checksums.crc32 !== row.crc32) return false;
  if (row.local.at !== 'container') learnBlocks(state.fileMap, row, checksums.list());
  return true;
}

/** Stores the block checksums of a large file if it has no valid ones. */
export function learnBlocks(
  fileMap: Pick<FileMap, 'find' | 'blocks' | 'setBlocks'>,
  row: FileRow,
  list: Buffer,
): void {
  if (blocksOf(fileMap, row)) return;
  if (!fileMap.find(row.key) || !isBlockListOf(list, row)) return;
  try {
    fileMap.setBlocks(row.key, list);
  } catch (error) {
    // No read waits for a lock: the next one of the whole file learns them.
    if (!isLocked(error)) throw error;
  }
}

/** The slice, from a storage whose copy is sound. */
export async function soundSlice(
  state: State,
  row: MergedRow,
  signal: Signal,
): Promise<Buffer | undefined> {
  if (row.size === 0) return Buffer.alloc(0);
  const { trunk } = row;
  for (const holder of await goodHolders(state, row, signal)) {
    const bytes = await readTrunk(
      state.trunkStore,
      trunk,
      trunk.offset,
      row.size,
      signal,
      holder,
    ).catch(() => undefined);
    if (bytes?.length === row.size && crc32(bytes) === row.crc32) return bytes;
    if (bytes) state.quarantine.add(row, 'trunk', holder);
  }
  return undefined;
}

/** Storages that have the file and are not known to have it damaged. */
export async function goodHolders(
  { trunkStore, quarantine }: State,
  row: MergedRow,
  signal: Signal,
): Promise<string[]> {
  const bad = quarantine.holders(row.key);
  const { holders } = await trunkStore.replicas(
    row.trunk.fileId,
    signal ?? AbortSignal.timeout(30_000),
  );
  return holders.filter((holder) => !bad.includes(holder));
}

/** True if a storage's copy of the large file is checked and sound. */
export async function hasSoundHolder(
  state: State,
  row: MergedRow,
  signal: Signal,
): Promise<boolean> {
  for (const holder of await goodHolders(state, row, signal)) {
    const isSound = await isSoundAt(state, row, holder, signal).catch(() => undefined);
    if (isSound) return true;
    if (isSound === false) state.quarantine.add(row, 'trunk', holder);
  }
  return false;
}

/**
 * A small file's bytes in the container. Undefined if they are not there, damaged or unreadable.
 * Rejects if another attempt may succeed.
 */
export async function soundBytes(
  container: Pick<Container, 'segment'>,
  { local, size, crc32: expected }: Pick<FileRow, 'local' | 'size' | 'crc32'>,
): Promise<Buffer | undefined> {
  try {
    const bytes = await container.segment(local.segment)?.readFirmly(local.position, size);
    return bytes?.length === size && crc32(bytes) === expected ? bytes : undefined;
  } catch (error) {
    if (error instanceof Unreadable) return undefined;
    throw error;
  }
}

export interface UpkeepOptions {
  /** True: repairs what can be repaired; false: changes nothing. */
  readonly repair: boolean;
  readonly signal?: AbortSignal;
  readonly onProgress?: (done: number, all: number) => void;
}

export const ROWS_PER_PAGE = 500;
const READ_TIMEOUT_MS = 60_000;

/** Every file of the FileMap after the given key, in key order. */
export async function* allFiles(
  fileMap: FileMap,
  from: Buffer = Buffer.alloc(0),
): AsyncGenerator<FileRow> {
  let after = from;
  for (;;) {
    const page = fileMap.page(after, ROWS_PER_PAGE);
    yield* page;
    if (page.length < ROWS_PER_PAGE) return;
    after = page.at(-1)!.key;
    await sleep(0);
  }
}

/** Every living file of a trunk, in order. */
export function* aliveIn(fileMap: FileMap, trunk: TrunkRow): Generator<MergedRow> {
  for (let offset = -1; ; ) {
    const page = fileMap.aliveIn(trunk.id, offset, ROWS_PER_PAGE);
    yield* page;
    if (page.length < ROWS_PER_PAGE) return;
    offset = page.at(-1)?.trunk.offset ?? offset;
  }
}

/**
 * A trunk's bytes, from one storage or any; undefined if FastDFS has no such file. Other failures
 * are thrown.
 */
export async function readTrunk(
  store: TrunkStore,
  trunk: Pick<TrunkRow, 'fileId'>,
  offset: number,
  length: number,
  signal: Signal,
  holder?: string,
): Promise<Buffer | undefined> {
  const timeout = AbortSignal.timeout(READ_TIMEOUT_MS);
  const either = signal ? AbortSignal.any([signal, timeout]) : timeout;
  try {
    return await store.read(trunk.fileId, offset, length, either, holder);
  } catch (error) {
    if (isStoreError(error, 'not_found')) return undefined;
    throw error;
  }
}

/** Block checksums of the large file, if known and valid. */
export function blocksOf(fileMap: Pick<FileMap, 'blocks'>, row: FileRow): Buffer | undefined {
  const list = fileMap.blocks(row.key);
  return list && isBlockListOf(list, row) ? list : undefined;
}

/**
 * The file's places in trunks, oldest first. Omits thin trunks that were given up: their files
 * never had ids, so nothing refers to those places.
 */
function placesOf(fileMap: Pick<FileMap, 'trunkByFileId'>, { was, trunk }: FileRow): FormerPlace[] {
  const kept = was.filter(([fileId]) => {
    const former = fileMap.trunkByFileId(fileId);
    return !former || former.thin === 0 || !isGivenUp(former);
  });
  return trunk ? [...kept, [trunk.fileId, trunk.offset]] : kept;
}

/**
 * Stages stored files again, with the given bytes or those in the spool. They are then stored like
 * new ones. `row` is the file before that.
 */
export async function stageAgain(
  { container, fileMap, now }: Pick<State, 'container' | 'fileMap' | 'now'>,
  files: readonly { readonly row: FileRow; readonly bytes: Buffer | undefined }[],
): Promise<void> {
  if (files.length === 0) return;
  const records = files.map(({ row, bytes }) => {
    // A record with another file's list would count as damaged.
    const blocks = bytes ? undefined : blocksOf(fileMap, row);
    const file = bytes ? smallFile(row, [bytes]) : spooledFile(row, blocks);
    return movedRecord(file, placesOf(fileMap, row));
  });
  await container.append(records);
  // A file deleted meanwhile must be deleted again, after its new record.
  const gone = files.filter(({ row }) => !fileMap.find(row.key));
  if (gone.length === 0) return;
  await container.append(gone.map(({ row }) => deletionRecord(row.key, now())));
}

export function stopped(): StoreError {
  return new StoreError('aborted', 'it was stopped before it finished; run it again');
}

import { setTimeout as sleep } from 'node:timers/promises';
import { isBlockListOf } from '../container/block-checksums.js';
import type { Container } from '../container/container.js';
import { deletionRecord, movedRecord } from '../container/records.js';
import type { Spool } from '../container/spool.js';
import { isStoreError, StoreError } from '../errors.js';
import type { FileMap, FileRow, TrunkRow } from '../filemap/filemap.js';
import type { FormerPlace } from '../filemap/rows.js';
import type { TrunkStore } from '../merge/trunk-store.js';

/** What the check (fsck.ts) and the scrub (scrub.ts) share. */
export interface UpkeepParts {
  readonly container: Container;
  readonly spool: Spool;
  readonly fileMap: FileMap;
  readonly trunkStore: TrunkStore;
  /** Another copy was made of a file that had lost one. */
  readonly onMoved: (bytes: number, spooled: boolean) => void;
  readonly now: () => number;
}

export interface UpkeepOptions {
  /** Mends what can be mended; without it nothing is changed. */
  readonly repair: boolean;
  readonly signal?: AbortSignal;
  readonly onProgress?: (done: number, all: number) => void;
}

export const ROWS_PER_PAGE = 500;
const READ_TIMEOUT_MS = 60_000;

/** Every file of the FileMap behind the given key, in their order. */
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

/** A trunk's bytes, of one storage or of any; undefined when FastDFS has no such file. Other failures are thrown. */
export async function readTrunk(
  store: TrunkStore,
  trunk: Pick<TrunkRow, 'fileId'>,
  offset: number,
  length: number,
  signal: AbortSignal | undefined,
  holder?: string,
): Promise<Buffer | undefined> {
  const timeout = AbortSignal.timeout(READ_TIMEOUT_MS);
  const either = signal ? AbortSignal.any([signal, timeout]) : timeout;
  try {
    return await store.read(trunk.fileId!, offset, length, either, holder);
  } catch (error) {
    if (isStoreError(error, 'not_found')) return undefined;
    throw error;
  }
}

/**
 * Stages a stored file again from a copy that is sound: from the bytes that are given, or
 * from those in the spool. It is stored again like a new one.
 */
export async function stageAgain(
  parts: Pick<UpkeepParts, 'container' | 'fileMap' | 'onMoved' | 'now'>,
  row: FileRow,
  bytes: Buffer | undefined,
): Promise<void> {
  const { container, fileMap, onMoved, now } = parts;
  // A record with a list that is not the file's would be taken for a damaged one.
  const list = bytes ? undefined : fileMap.blocks(row.key);
  const place: FormerPlace = [row.trunk!.fileId, row.trunk!.offset];
  const file = {
    ...row,
    body: bytes && [bytes],
    blocks: list && isBlockListOf(list, row) ? list : undefined,
  };
  await container.append([movedRecord(file, [...row.was, place])]);
  // One that was deleted meanwhile must be deleted behind its new record too.
  if (!fileMap.find(row.key)) await container.append([deletionRecord(row.key, now())]);
  onMoved(row.size, bytes === undefined);
}

export function stopped(): StoreError {
  return new StoreError('aborted', 'it was stopped before its end; it can be started again');
}

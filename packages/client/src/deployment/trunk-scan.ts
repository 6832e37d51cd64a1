import type { DeploymentMap } from '@stevedore/map';
import {
  decodeFields,
  parseFileId,
  parseTrunkTask,
  sizeOfField,
  TAIL_BYTES,
  TRUNK_EXTENSION,
} from '@stevedore/protocol';
import { isStoreError, type ListedFile, type TrunkStore } from '@stevedore/staging';

/**
 * Finds trunks that FastDFS has and the map does not know. The storages list their files; the last
 * bytes of a trunk name its task, and so its origin. Large files name no task and are not found.
 */

export interface FoundTrunk {
  readonly taskId: Buffer;
  readonly fileId: string;
  readonly size: number;
  readonly crc32: number;
}

export interface TrunkScan {
  readonly trunks: readonly FoundTrunk[];
  /** What could not be listed or read, one sentence each. */
  readonly unlisted: readonly string[];
}

export interface ScanParts {
  readonly map: Pick<DeploymentMap, 'trunks'>;
  readonly store: Pick<TrunkStore, 'list' | 'read' | 'sizeOf'>;
  readonly signal: AbortSignal;
}

const TASK_BYTES = 16;
const FIRST = Buffer.alloc(0);
const TRUNKS_PER_PAGE = 1_000;
const READS_AT_ONCE = 8;

/**
 * `since`: ignores older trunks, in Unix milliseconds by the storages' clocks. `all`: includes
 * trunks that the map knows.
 */
export async function scanTrunks(
  parts: ScanParts,
  { since = 0, all = false }: { readonly since?: number; readonly all?: boolean } = {},
): Promise<TrunkScan> {
  const { map, store, signal } = parts;
  const listed = new Map<string, ListedFile>();
  const problems = await store.list((file) => {
    const isTrunk = file.fileId.endsWith(`.${TRUNK_EXTENSION}`);
    if (isTrunk && file.createdAt >= since) listed.set(file.fileId, file);
  }, signal);
  for await (const page of all ? [] : pagesOfTrunks(map)) {
    signal.throwIfAborted();
    for (const { fileId } of page) listed.delete(fileId);
  }
  const trunks: FoundTrunk[] = [];
  const unlisted = [...problems];
  await each([...listed.values()], async (file) => {
    try {
      const found = await readTask(parts, file);
      if (found) trunks.push(found);
    } catch (error) {
      signal.throwIfAborted();
      unlisted.push(`${file.fileId} could not be read: ${(error as Error).message}`);
    }
  });
  return { trunks, unlisted };
}

/** All trunks of the map, or those of one origin, in pages. */
export async function* pagesOfTrunks(map: Pick<DeploymentMap, 'trunks'>, origin?: number) {
  for (let after: Uint8Array = FIRST; ; ) {
    const page = await map.trunks(after, TRUNKS_PER_PAGE, origin);
    if (page.length > 0) yield page;
    if (page.length < TRUNKS_PER_PAGE) return;
    after = page.at(-1)!.id;
  }
}

/** Size and CRC-32 from a trunk's id; undefined if it is not an id. */
export function trunkOfId(fileId: string): { size: number; crc32: number } | undefined {
  const id = parseFileId(fileId);
  if (!id) return undefined;
  const { sizeField, crc32 } = decodeFields(id.base);
  return { size: sizeOfField(sizeField), crc32 };
}

/** Runs `work` for every item, a few at a time; rejects with the first failure. */
export async function each<Item>(
  items: readonly Item[],
  work: (item: Item) => Promise<void>,
): Promise<void> {
  const left = items.values();
  const worker = async (): Promise<void> => {
    for (const item of left) await work(item);
  };
  await Promise.all(Array.from({ length: READS_AT_ONCE }, worker));
}

/** Undefined for a file that is gone or not a trunk of ours. */
async function readTask(
  { store, signal }: ScanParts,
  { fileId, size: shown, crc32 = 0 }: ListedFile,
): Promise<FoundTrunk | undefined> {
  try {
    const size = shown ?? (await store.sizeOf(fileId, signal)) ?? 0;
    if (size === 0) return undefined;
    const tailBytes = Math.min(TAIL_BYTES, size);
    const tail = await store.read(fileId, size - tailBytes, tailBytes, signal);
    const taskId = Buffer.from(parseTrunkTask(tail) ?? '', 'base64url');
    return taskId.length === TASK_BYTES ? { taskId, fileId, size, crc32 } : undefined;
  } catch (error) {
    if (isStoreError(error, 'not_found')) return undefined;
    throw error;
  }
}

import { setImmediate as nextTurn } from 'node:timers/promises';
import { ProtocolError } from '@stevedore/protocol';
import { isStoreError } from './errors.js';
import type { FileMap, TrunkRow } from './filemap.js';
import { readTrunkDirectory } from './trunk-directory.js';
import { confirmTrunk } from './trunk-sender.js';
import type { TrunkStore } from './trunk-store.js';

/**
 * Brings trunks that FastDFS has into the FileMap: those whose confirmation a crash
 * cut short, and, where the FileMap was lost, those that only a record names and
 * only their own directories describe.
 */

export interface UnreadTrunk {
  readonly trunk: TrunkRow;
  readonly error: Error;
}

const ADOPT_PAGE = 250;

/** Resolves with the trunks that could not be read yet; they are to be tried again. */
export async function settleTrunks(
  fileMap: FileMap,
  store: TrunkStore,
  signal: AbortSignal,
  onProgress: (done: number, all: number) => void = () => undefined,
): Promise<UnreadTrunk[]> {
  const unread: UnreadTrunk[] = [];
  // Where two trunks hold a file, the later one is where it was moved to.
  const stored = fileMap.trunksIn('stored').sort((a, b) => Buffer.compare(b.taskId, a.taskId));
  for (const [index, trunk] of stored.entries()) {
    const members = fileMap.members(trunk.id);
    // A plan may outlive the segments of its members: then only the trunk itself knows
    // them, and to take them for deleted would be to delete them.
    const isKnown = members.every(({ key }) => fileMap.find(key) ?? fileMap.isDeleted(key));
    if (members.length > 0 && isKnown) {
      await confirmTrunk(fileMap, trunk.id, members);
      continue;
    }
    try {
      await adoptTrunk(fileMap, store, trunk, signal);
    } catch (error) {
      if (isStoreError(error, 'not_found')) fileMap.retireTrunk(trunk.id);
      else unread.push({ trunk, error: error as Error });
      if (!(error instanceof ProtocolError) && !isStoreError(error, 'not_found')) {
        // FastDFS is away: the others would fail as well.
        unread.push(
          ...stored.slice(index + 1).map((other) => ({ trunk: other, error: error as Error })),
        );
        break;
      }
    }
    onProgress(index + 1, stored.length);
  }
  return unread;
}

/** Plans that were not sent to their end are given up: their files wait again. */
export function abandonPlans(fileMap: FileMap): number {
  const unfinished = fileMap.trunksIn('planned');
  for (const trunk of unfinished) fileMap.abandonTrunk(trunk.id);
  return unfinished.length;
}

async function adoptTrunk(
  fileMap: FileMap,
  store: TrunkStore,
  trunk: TrunkRow,
  signal: AbortSignal,
): Promise<void> {
  const entries = await readTrunkDirectory(store, trunk, signal);
  for (let at = 0; at < entries.length; at += ADOPT_PAGE) {
    fileMap.adoptMembers(trunk, entries.slice(at, at + ADOPT_PAGE));
    await nextTurn();
  }
  const contentBytes = entries.reduce((sum, { file }) => sum + file.size, 0);
  fileMap.finishTrunk(trunk.id, entries.length, contentBytes);
}

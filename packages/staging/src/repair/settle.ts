import { setImmediate as nextTurn } from 'node:timers/promises';
import { ProtocolError } from '@stevedore/protocol';
import { isStoreError } from '../errors.js';
import type { FileMap, TrunkRow } from '../filemap/filemap.js';
import { readTrunkDirectory } from '../merge/trunk-directory.js';
import { finishTrunk, inPages } from '../merge/trunk-sender.js';
import type { TrunkStore } from '../merge/trunk-store.js';

/**
 * Brings trunks that FastDFS has into the FileMap: those whose confirmation a crash
 * cut short, and, where the FileMap was lost, those that only a record names and
 * only their own directories describe. Until the last of these is read, a key that is
 * not found may be that of a file in one of them.
 */

/** A trunk whose directory could not be read, and why. */
export interface UnreadTrunk {
  readonly trunk: TrunkRow;
  readonly error: Error;
}

const ADOPT_PAGE = 250;

/**
 * Confirms the trunks whose members the container knows; resolves with the others, whose
 * directories have to be read.
 */
export async function settleKnown(fileMap: FileMap): Promise<TrunkRow[]> {
  const unread: TrunkRow[] = [];
  for (const trunk of [...fileMap.trunksIn('stored'), ...fileMap.trunksIn('missing')]) {
    const members = fileMap.members(trunk.id);
    // A plan may outlive the segments of its members: then only the trunk itself knows
    // them, and to take them for deleted would be to delete them.
    const isKnown = ({ key, offset }: (typeof members)[number]) => {
      const row = fileMap.find(key);
      if (row) return (row.trunk?.id ?? trunk.id) === trunk.id || isForwarded(offset);
      return fileMap.isDeleted(key);
    };
    const isForwarded = (offset: number) => fileMap.forwarded(trunk.fileId!, offset) !== undefined;
    // A large file that was deleted when the record of its storing was written again.
    const isDead = trunk.kind === 'whole' && members.length === 0;
    if (isDead) fileMap.finishTrunk(trunk.id, trunk.files, trunk.size);
    if (isDead) continue;
    if (members.length === 0 || !members.every(isKnown)) {
      unread.push(trunk);
      continue;
    }
    await inPages(members, (page) => fileMap.confirmUnmoved(trunk, page));
    finishTrunk(fileMap, trunk.id, members);
  }
  return unread;
}

/** Reads the directories of the trunks; resolves with those that are to be tried again. */
export async function adoptTrunks(
  fileMap: FileMap,
  store: TrunkStore,
  trunks: readonly TrunkRow[],
  signal: AbortSignal,
  onProgress: (done: number, all: number) => void = () => undefined,
): Promise<UnreadTrunk[]> {
  const unread: UnreadTrunk[] = [];
  for (const [index, trunk] of trunks.entries()) {
    try {
      await adoptTrunk(fileMap, store, trunk, signal);
    } catch (error) {
      unread.push({ trunk, error: error as Error });
      if (isGone(error)) fileMap.missTrunk(trunk.id);
      else if (!isDamage(error)) {
        // FastDFS is away: the others would fail as well.
        const rest = trunks.slice(index + 1);
        return [...unread, ...rest.map((other) => ({ trunk: other, error: error as Error }))];
      }
    }
    onProgress(index + 1, trunks.length);
  }
  return unread;
}

/** FastDFS has answered, and the answer will hardly change. */
export function isFinal({ error }: UnreadTrunk): boolean {
  return isGone(error) || isDamage(error);
}

function isGone(error: unknown): boolean {
  return isStoreError(error, 'not_found');
}

function isDamage(error: unknown): boolean {
  return error instanceof ProtocolError;
}

/** Plans that were not sent to their end are given up: their files wait again. */
export function abandonPlans(fileMap: FileMap, now: number): number {
  const unfinished = fileMap.trunksIn('planned');
  for (const trunk of unfinished) fileMap.abandonTrunk(now, trunk.id);
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
    signal.throwIfAborted();
    fileMap.adoptMembers(trunk, entries.slice(at, at + ADOPT_PAGE));
    await nextTurn();
  }
  const contentBytes = entries.reduce((sum, { file }) => sum + file.size, 0);
  fileMap.finishTrunk(trunk.id, entries.length, contentBytes);
}

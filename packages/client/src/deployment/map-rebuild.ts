import { type DeploymentMap, IN_USE_MS, originOf } from '@stevedore/map';
import { readTrunkDirectory, type TrunkStore } from '@stevedore/staging';
import { differenceOf, placedOf } from './map-check.js';
import { each, scanTrunks } from './trunk-scan.js';

/**
 * Makes a map anew from the directories of the trunks in FastDFS alone, for gateways of which
 * nothing else is left. A directory does not know what was deleted, so the trunks of gateways
 * that are alive are left to them. It may be stopped and started again.
 */

export interface MapRebuildParts {
  readonly map: DeploymentMap;
  readonly store: TrunkStore;
  readonly signal: AbortSignal;
  readonly onProgress: (done: number, all: number) => void;
}

export interface MapRebuildReport {
  /** Trunks that were read, and files in them that the map did not know. */
  readonly trunks: number;
  readonly files: number;
  /** Trunks that their gateways publish themselves. */
  readonly left: number;
  /** What could not be listed or read, a sentence each. */
  readonly unlisted: readonly string[];
}

const FILES_PER_PAGE = 2_000;

export async function rebuildMap(parts: MapRebuildParts): Promise<MapRebuildReport> {
  const { map, store, signal, onProgress } = parts;
  const now = await map.now();
  const gateways = await map.gateways();
  const alive = gateways.filter(
    ({ place, seenAt, adoption }) => place !== '' && !adoption && now - seenAt < IN_USE_MS,
  );
  const speaking = new Set(alive.map(({ origin }) => origin));
  for (const { origin, adoption } of gateways) {
    if (adoption && speaking.has(adoption.by)) speaking.add(origin);
  }
  const scan = await scanTrunks({ map, store, signal }, { all: true });
  const trunks = scan.trunks.filter(({ taskId }) => !speaking.has(originOf(taskId)));
  const unlisted = [...scan.unlisted];
  let files = 0;
  let done = 0;
  await each(trunks, async (trunk) => {
    signal.throwIfAborted();
    try {
      // Not `files += await`: that would read the sum before the wait, and others add to it.
      const placed = await place(parts, trunk);
      files += placed;
    } catch (error) {
      signal.throwIfAborted();
      if ((error as { code?: unknown }).code === 'map_unavailable') throw error;
      unlisted.push(`${trunk.fileId} could not be read: ${(error as Error).message}`);
    }
    done += 1;
    onProgress(done, trunks.length);
  });
  const left = scan.trunks.length - trunks.length;
  return { trunks: trunks.length, files, left, unlisted };
}

/** How many files of the trunk were added to the map. */
async function place(
  { map, store, signal }: MapRebuildParts,
  trunk: { readonly taskId: Buffer; readonly fileId: string; readonly size: number },
): Promise<number> {
  const entries = await readTrunkDirectory(store, trunk, signal);
  const { taskId: id, fileId } = trunk;
  let files = 0;
  for (let at = 0; at < entries.length || at === 0; at += FILES_PER_PAGE) {
    const page = entries.slice(at, at + FILES_PER_PAGE);
    const mapped = await map.find(page.map(({ file }) => file.key));
    const placed = page.filter((entry, index) => differenceOf({ fileId }, entry, mapped[index]));
    // With no files at all the map still learns of the trunk.
    await map.place({ id, fileId }, placed.map(placedOf));
    files += placed.length;
  }
  return files;
}

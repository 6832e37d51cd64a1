import { type DeploymentMap, isAlive, originOf } from '@stevedore/map';
import { readTrunkDirectory, type TrunkStore } from '@stevedore/staging';
import { differenceOf, placedOf } from './map-check.js';
import { each, scanTrunks } from './trunk-scan.js';

/**
 * Rebuilds a map from the directories of the trunks in FastDFS, for gateways of which nothing else
 * is left. A directory does not record deletions, so live gateways publish their trunks themselves.
 * The rebuild can be stopped and run again.
 */

export interface MapRebuildParts {
  readonly map: DeploymentMap;
  readonly store: TrunkStore;
  readonly signal: AbortSignal;
  readonly onProgress: (done: number, all: number) => void;
}

export interface MapRebuildReport {
  /** Trunks read, and files in them that were added to the map or corrected. */
  readonly trunks: number;
  readonly files: number;
  /** Trunks that their gateways publish themselves. */
  readonly left: number;
  /** What could not be listed or read, one sentence each. */
  readonly unlisted: readonly string[];
}

const FILES_PER_PAGE = 2_000;

export async function rebuildMap(parts: MapRebuildParts): Promise<MapRebuildReport> {
  const { map, store, signal, onProgress } = parts;
  const now = await map.now();
  const gateways = await map.gateways();
  const alive = gateways.filter((gateway) => isAlive(gateway, now));
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

/** Returns the number of files that were added to the map or corrected. */
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
    // A trunk without files is entered, too.
    await map.place({ id, fileId }, placed.map(placedOf));
    files += placed.length;
  }
  return files;
}

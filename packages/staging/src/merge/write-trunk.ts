import { type Disk, privateDisk } from '@stevedore/disk';
import type { TrunkSource } from './trunk-store.js';

/** Syncing 64 MiB at once would make other syncs of the disk wait for all of it. */
const SYNC_EVERY_BYTES = 4 * 2 ** 20;

/**
 * Writes a trunk to a path that a storage on this disk gave out; the file is there and empty. What is
 * left to sync is the storage's.
 */
export async function writeTrunk(
  path: string,
  { pieces }: Pick<TrunkSource, 'pieces'>,
  signal: AbortSignal,
  disk: Disk = privateDisk,
): Promise<void> {
  const file = await disk.openToUpdate(path);
  let syncing: Promise<void> = Promise.resolve();
  try {
    let at = 0;
    let syncedTo = 0;
    for await (const some of pieces()) {
      signal.throwIfAborted();
      await file.writeAt(some, at);
      for (const piece of some) at += piece.length;
      if (at - syncedTo < SYNC_EVERY_BYTES) continue;
      await syncing;
      syncedTo = at;
      syncing = file.sync();
      syncing.catch(() => undefined);
    }
    // The system tells of a failed sync once: the storage's own would not learn of it.
    await syncing;
  } finally {
    await syncing.catch(() => undefined);
    await file.close();
  }
}

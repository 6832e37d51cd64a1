import type { Disk } from '@stevedore/disk';

/** A file that is handed to the storage of this process on its own disk. */

export interface HandedFile {
  /** Bytes that `chunks` will yield. */
  readonly size: number;
  /** Without its dot. */
  readonly extension: string;
  /** Yields the bytes, many pieces at a time, which are valid until the next are asked for. */
  pieces(): AsyncIterable<readonly Uint8Array[]>;
}

/** Syncing 64 MiB at once would make other syncs of the disk wait for all of it. */
const SYNC_EVERY_BYTES = 4 * 2 ** 20;

/** Writes the file, which is there and empty; what is left to sync is the storage's. */
export async function writeHanded(
  disk: Disk,
  path: string,
  { pieces }: HandedFile,
  signal: AbortSignal,
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

import { setTimeout as sleep } from 'node:timers/promises';
import { isStoreError, storeErrorOf } from '../errors.js';

/**
 * Locks that another program, such as a backup tool, holds on the FileMap. SQLite waits for them on
 * the event loop, so it waits only briefly. What can wait longer does so between its attempts.
 */

/** How long opening the FileMap waits for a lock. */
export const OPENING_WAIT_MS = 2_000;
const ATTEMPTS = 40;
const PAUSE_MS = 50;

export function isLocked(error: unknown): boolean {
  return isStoreError(storeErrorOf(error), 'filemap_locked');
}

/** Repeats the work for about two seconds while the FileMap is locked, then throws its last error. */
export async function pastLocks(work: () => unknown): Promise<void> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      work();
      return;
    } catch (error) {
      if (attempt === ATTEMPTS || !isLocked(error)) throw error;
    }
    await sleep(PAUSE_MS);
  }
}

import { setTimeout as sleep } from 'node:timers/promises';
import { isMediumFailure } from '@stevedore/disk';

/**
 * Reads that tell a bad sector from trouble that passes. What the medium does not answer is
 * read again a few times; only if it still does not, while the disk does other work in
 * between, is it given up (`Unreadable`). A disk that fails as a whole, and a system that is
 * short of something, say nothing about these bytes: such failures go to the caller as they
 * are.
 */
export class Unreadable extends Error {
  constructor(cause: unknown) {
    super(`the disk does not give the bytes (${(cause as Error).message})`, { cause });
  }
}

/** Before the second attempt and before the third, which is the last. */
const PAUSES_MS = [50, 100];

/** `isWell` rejects where the disk fails as a whole; it is asked before each further attempt. */
export async function readFirmly<T>(
  read: () => Promise<T>,
  isWell: () => Promise<unknown>,
): Promise<T> {
  for (let attempt = 0; ; attempt += 1) {
    try {
      return await read();
    } catch (error) {
      if (!isMediumFailure(error)) throw error;
      const pauseMs = PAUSES_MS[attempt];
      if (pauseMs === undefined) throw new Unreadable(error);
      await sleep(pauseMs);
      try {
        await isWell();
      } catch {
        throw error;
      }
    }
  }
}

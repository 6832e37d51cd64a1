import { open, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { temporaryFolder } from './temporary.js';

const ROUNDS = 5;
const TURNS = 20;

/**
 * Resolves once whatever could happen by itself, timers apart, has had its chance: the disk has
 * synced, and the event loop has turned, several times. For tests that something does not happen.
 */
export async function quiet(): Promise<void> {
  const path = join(temporaryFolder(), 'synced');
  const file = await open(path, 'w');
  try {
    for (let round = 0; round < ROUNDS; round += 1) {
      await file.write(Buffer.alloc(4096), 0, 4096, round * 4096);
      await file.datasync();
      for (let turn = 0; turn < TURNS; turn += 1) await nextTurn();
    }
  } finally {
    await file.close();
    await rm(path);
  }
}

import { setTimeout as sleep } from 'node:timers/promises';
import { originOf } from '@stevedore/map';
import { isStoreError } from '@stevedore/staging';
import type { Deployment } from './deployment.js';

/** A server that restarts is back within this time, on an idle machine. */
const RESTART_MS = 5_000;
const LOOK_MS = 200;

/**
 * Repeats what `storage_unavailable` refuses while the file's server restarts, so that a planned
 * restart fails no request for its files.
 */
export async function throughRestart<Result>(
  deployment: Pick<Deployment, 'mayReturn'>,
  key: Buffer,
  attempt: () => Promise<Result>,
  signal?: AbortSignal,
): Promise<Result> {
  const startedAt = performance.now();
  for (;;) {
    try {
      return await attempt();
    } catch (error) {
      const isOver = performance.now() - startedAt >= RESTART_MS || signal?.aborted;
      const isAway = isStoreError(error, 'storage_unavailable');
      if (isOver || !isAway || !deployment.mayReturn(originOf(key))) throw error;
    }
    await sleep(LOOK_MS, undefined, signal ? { signal } : {}).catch(() => undefined);
  }
}

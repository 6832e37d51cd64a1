import { setTimeout as sleep } from 'node:timers/promises';
import { isStoreError } from '@stevedore/staging';

/** What restarts is back within this time, on an idle machine. */
export const RESTART_MS = 5_000;
const LOOK_MS = 200;

/**
 * Repeats what `storage_unavailable` refuses while a server, or the map, may be restarting, so that
 * a planned restart fails no request.
 */
export async function throughRestart<Result>(
  attempt: () => Promise<Result>,
  mayReturn: () => boolean,
  signal?: AbortSignal,
): Promise<Result> {
  const startedAt = performance.now();
  for (;;) {
    try {
      return await attempt();
    } catch (error) {
      const isOver = performance.now() - startedAt >= RESTART_MS || signal?.aborted;
      if (isOver || !isStoreError(error, 'storage_unavailable') || !mayReturn()) throw error;
    }
    await sleep(LOOK_MS, undefined, { signal }).catch(() => undefined);
  }
}

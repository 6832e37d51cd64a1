import { setTimeout as sleep } from 'node:timers/promises';

const LIMIT_MS = 30_000;

/** Resolves once `check` does not throw; rejects with its last error after half a minute. */
export async function soon<Result>(check: () => Promise<Result>): Promise<Result> {
  const end = performance.now() + LIMIT_MS;
  for (;;) {
    try {
      return await check();
    } catch (error) {
      if (performance.now() > end) throw error;
      await sleep(20);
    }
  }
}

import { setTimeout as sleep } from 'node:timers/promises';

const POLL_MS = 50;
const DEFAULT_LIMIT_MS = 60_000;

/** Throws where it is not so in time: a benchmark that waits for ever has no report. */
export async function until(
  what: string,
  isSo: () => boolean | Promise<boolean>,
  limitMs = DEFAULT_LIMIT_MS,
): Promise<void> {
  const end = performance.now() + limitMs;
  while (!(await isSo())) {
    if (performance.now() > end) throw new Error(`${what}: not within ${limitMs / 1000} s`);
    await sleep(POLL_MS);
  }
}

/** As Promise.all, but rejects only when none of them is under way any more. */
export async function settled<T>(promises: readonly Promise<T>[]): Promise<T[]> {
  const outcomes = await Promise.allSettled(promises);
  return outcomes.map((outcome) => {
    if (outcome.status === 'rejected') throw outcome.reason;
    return outcome.value;
  });
}

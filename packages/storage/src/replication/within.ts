import { setTimeout as sleep } from 'node:timers/promises';

/** True if it succeeds in that time; what becomes of it later does not matter. */
export async function within(asked: Promise<unknown>, ms: number): Promise<boolean> {
  const stop = new AbortController();
  const answered = asked.then(
    () => true,
    () => false,
  );
  const late = sleep(ms, false, { signal: stop.signal }).catch(() => false);
  try {
    return await Promise.race([answered, late]);
  } finally {
    stop.abort();
  }
}

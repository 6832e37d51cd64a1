import { Random } from '../random.js';

/**
 * How much of all crashes is tried: a tenth of them, other ones each time, unless
 * STEVEDORE_TEST_CRASH_SHARE says how much. STEVEDORE_TEST_SEED tries the same ones again.
 */
export const CRASH_SHARE = Number(process.env.STEVEDORE_TEST_CRASH_SHARE ?? 0.1);
export const CRASH_SEED = Number(
  process.env.STEVEDORE_TEST_SEED ?? Math.floor(Math.random() * 2 ** 32),
);

const random = new Random(CRASH_SEED);

/** One of each so many that follow each other. */
export function sampleOf<T>(items: readonly T[], share: number): T[] {
  const step = 1 / share;
  const picked = new Set<number>();
  for (let from = 0; from < items.length; from += step) {
    picked.add(Math.floor(from + random.next() * step));
  }
  return items.filter((_, index) => picked.has(index));
}

/** The first of all items that agree in what tells them apart. */
export function differentOf<T>(items: readonly T[], agreement: (item: T) => string): T[] {
  const found = new Map<string, T>();
  for (const item of items) {
    const of = agreement(item);
    if (!found.has(of)) found.set(of, item);
  }
  return [...found.values()];
}

import { Random } from '../random.js';

/**
 * How much of all crashes is tried: `npm test` tries a tenth of them, other ones each time,
 * continuous integration (`.ci/run`) more. STEVEDORE_TEST_CRASH_SHARE=1 tries every one,
 * STEVEDORE_TEST_SEED the same ones again.
 */
export const CRASH_SHARE = Number(process.env.STEVEDORE_TEST_CRASH_SHARE ?? 0.1);
export const CRASH_SEED = Number(
  process.env.STEVEDORE_TEST_SEED ?? Math.floor(Math.random() * 2 ** 32),
);

const random = new Random(CRASH_SEED);

console.log(`a share of ${CRASH_SHARE} of the crashes, seed ${CRASH_SEED}`);

/** One of each so many that follow each other. */
export function sampleOf<T>(items: readonly T[]): T[] {
  const step = 1 / CRASH_SHARE;
  const picked = new Set<number>();
  for (let from = 0; from < items.length; from += step) {
    picked.add(Math.floor(from + random.next() * step));
  }
  return items.filter((_, index) => picked.has(index));
}

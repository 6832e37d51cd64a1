import { heated } from '@stevedore/balance';
import { SeededRandom } from '@stevedore/bench/seeded-random';
import { expect, test } from 'vitest';

const HOUR_MS = 3_600_000;

/** The sum of the accesses as the definition has it. */
function sumOf(timesMs: readonly number[], nowMs: number): number {
  return timesMs.reduce((sum, atMs) => sum + 2 ** ((atMs - nowMs) / HOUR_MS), 0);
}

test('of two files the one that is asked for more, and later, is the hotter', () => {
  for (let seed = 1; seed <= 500; seed += 1) {
    const random = new SeededRandom(seed);
    const start = 1_700_000_000_000;
    const history = () => {
      let at = start;
      return Array.from({ length: 1 + random.below(20) }, () => {
        at += random.exponential(HOUR_MS);
        return at;
      });
    };
    const [one, other] = [history(), history()];
    const heat = (times: readonly number[]) =>
      times.reduce<number | undefined>((before, at) => heated(before, at), undefined)!;
    const now = Math.max(...one, ...other);
    const ratio = sumOf(one, now) / sumOf(other, now);
    expect(2 ** (heat(one) - heat(other))).toBeCloseTo(ratio, 3 - Math.ceil(Math.log10(ratio)));
  }
});

test('several accesses at a time count as so many', () => {
  const now = 1_700_000_000_000;
  const three = heated(heated(heated(undefined, now), now), now);
  expect(heated(undefined, now, 3)).toBeCloseTo(three, 6);
});

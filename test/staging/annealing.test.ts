import { anneal, type PackingUnit, seededRandom } from '@stevedore/staging';
import { describe, expect, test } from 'vitest';

const CAPACITY = 64 * 2 ** 20 - 60;
const LIMITS = { capacityBytes: CAPACITY, maxFiles: 65_534 };

function unit(bytes: number, penalty = 0, files = 1): PackingUnit {
  return { bytes, penalty, files };
}

/** Sizes from 2 to 100 KB, evenly spread over their logarithm, with the format's overhead. */
function logUniform(count: number, random: () => number): PackingUnit[] {
  return Array.from({ length: count }, () =>
    unit(Math.round(2048 * Math.exp(random() * Math.log(50))) + 230),
  );
}

describe('annealing', () => {
  test('leaves at most 64 of 64 MiB unfilled with 5,000 candidates, whatever the seed', () => {
    for (let seed = 1; seed <= 40; seed++) {
      const random = seededRandom(seed);
      const units = logUniform(5_000, random);
      const packing = anneal(units, LIMITS, { random });
      expect(packing.unfilledBytes, `seed ${seed}`).toBeLessThanOrEqual(64);
      expect(packing.unfilledBytes).toBeGreaterThanOrEqual(0);
    }
  });

  test('what it reports is what it chose, and no unit twice', () => {
    for (let seed = 1; seed <= 200; seed++) {
      const random = seededRandom(seed);
      const units = Array.from({ length: 1 + Math.floor(random() * 60) }, () =>
        unit(
          1 + Math.floor(random() * 400),
          random() < 0.3 ? 1000 : 0,
          1 + Math.floor(random() * 4),
        ),
      );
      const limits = { capacityBytes: 50 + Math.floor(random() * 3000), maxFiles: 40 };
      const { chosen, bytes, unfilledBytes } = anneal(units, limits, { random });
      const sum = chosen.reduce((total, index) => total + units[index]!.bytes, 0);
      const files = chosen.reduce((total, index) => total + units[index]!.files, 0);
      expect(new Set(chosen).size, `seed ${seed}`).toBe(chosen.length);
      expect(sum).toBe(bytes);
      expect(sum + unfilledBytes).toBe(limits.capacityBytes);
      expect(sum).toBeLessThanOrEqual(limits.capacityBytes);
      expect(files).toBeLessThanOrEqual(limits.maxFiles);
    }
  });

  test('the same seed gives the same choice', () => {
    const units = logUniform(4_000, seededRandom(7));
    const first = anneal(units, LIMITS, { random: seededRandom(3) });
    expect(anneal(units, LIMITS, { random: seededRandom(3) })).toEqual(first);
  });

  test('takes everything when everything fits', () => {
    const units = [unit(10), unit(20), unit(30)];
    const packing = anneal(
      units,
      { capacityBytes: 100, maxFiles: 10 },
      { random: seededRandom(1) },
    );
    expect(packing).toEqual({ chosen: [0, 1, 2], bytes: 60, unfilledBytes: 40, moves: 0 });
  });

  test('units that are overdue are not traded for a better fill', () => {
    for (let seed = 1; seed <= 30; seed++) {
      const random = seededRandom(seed);
      const units = logUniform(5_000, random).map((one, index) =>
        index < 500 ? { ...one, penalty: 2 ** 20 } : one,
      );
      const chosen = new Set(anneal(units, LIMITS, { random }).chosen);
      const left = Array.from({ length: 500 }, (_, index) => index).filter((i) => !chosen.has(i));
      expect(left, `seed ${seed}`).toEqual([]);
    }
  });

  test('no unit that is too large, no unit at all', () => {
    const limits = { capacityBytes: 100, maxFiles: 10 };
    expect(anneal([unit(101)], limits, { random: seededRandom(1) }).chosen).toEqual([]);
    expect(anneal([], limits, { random: seededRandom(1) }).chosen).toEqual([]);
  });
});

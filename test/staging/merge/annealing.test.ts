import { anneal as annealInSteps, type Packing, type PackingUnit } from '@stevedore/staging';
import { describe, expect, test } from 'vitest';
import { seededRandom } from '../../../packages/staging/dist/merge/candidates.js';

/** All steps at once. */
function anneal(...args: Parameters<typeof annealInSteps>): Packing {
  const steps = annealInSteps(...args);
  for (;;) {
    const { done, value } = steps.next();
    if (done) return value;
  }
}

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

const MIB = 2 ** 20;

/** Sizes among which the oldest units and single exchanges do not fill a trunk. */
const HARD: readonly (readonly [string, (random: () => number) => PackingUnit[]])[] = [
  [
    'files of 1 to 4 MiB',
    (random) => Array.from({ length: 50 }, () => unit(Math.round((1 + 3 * random()) * MIB))),
  ],
  [
    'few large files',
    (random) => Array.from({ length: 14 }, () => unit(Math.round((4 + 12 * random()) * MIB))),
  ],
  [
    'large groups and small files',
    (random) => [
      ...Array.from({ length: 12 }, () => unit(Math.round((5 + 20 * random()) * MIB))),
      ...logUniform(100, random),
    ],
  ],
];

function median(values: number[]): number {
  return values.sort((a, b) => a - b)[values.length >> 1]!;
}

/** Unfilled bytes of the fullest trunk when all units are spread by best-fit decreasing. */
function bestFitDecreasing(units: readonly PackingUnit[]): number {
  const left: number[] = [];
  for (const { bytes } of [...units].sort((a, b) => b.bytes - a.bytes)) {
    const fitting = left.filter((room) => room >= bytes);
    const room = fitting.length === 0 ? CAPACITY : Math.min(...fitting);
    if (fitting.length > 0) left.splice(left.indexOf(room), 1);
    left.push(room - bytes);
  }
  return Math.min(...left);
}

describe('annealing', () => {
  test.each(HARD)('fills what its start leaves: %s', (_, sizes) => {
    const still: number[] = [];
    const annealed: number[] = [];
    for (let seed = 1; seed <= 15; seed++) {
      const units = sizes(seededRandom(seed));
      const fill = (maxMoves?: number) => {
        const random = seededRandom(seed);
        return anneal(units, LIMITS, { random, ...(maxMoves === undefined ? {} : { maxMoves }) });
      };
      still.push(fill(0).unfilledBytes);
      annealed.push(fill().unfilledBytes);
    }
    expect(median(annealed)).toBeLessThan(median(still) / 4);
  });

  test.each(HARD)('is never worse than best-fit decreasing: %s', (_, sizes) => {
    for (let seed = 1; seed <= 25; seed++) {
      const units = sizes(seededRandom(seed));
      const { unfilledBytes } = anneal(units, LIMITS, { random: seededRandom(seed) });
      expect(unfilledBytes, `seed ${seed}`).toBeLessThanOrEqual(bestFitDecreasing(units));
    }
  });

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

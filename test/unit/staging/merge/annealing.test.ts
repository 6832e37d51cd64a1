import { anneal as annealInSteps, type Packing, type PackingUnit } from '@stevedore/staging';
import { describe, expect, test } from 'vitest';
import { seededRandom } from '../../../../packages/staging/dist/merge/candidates.js';

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

/** As far as no chance is needed. */
describe('without annealing', () => {
  const pack = (
    units: readonly PackingUnit[],
    limits: { readonly capacityBytes: number; readonly maxFiles?: number },
  ) => {
    const random = () => {
      throw new Error('chance is needed');
    };
    return anneal(units, { maxFiles: 100, ...limits }, { random, maxMoves: 0 });
  };

  test('the oldest units that fit are taken, also those behind one that does not', () => {
    const packing = pack([unit(60), unit(50), unit(40)], { capacityBytes: 100 });
    expect(packing).toEqual({ chosen: [0, 2], bytes: 100, unfilledBytes: 0, moves: 0 });
    const files = [unit(10, 0, 3), unit(10, 0, 3), unit(10, 0, 2)];
    expect(pack(files, { capacityBytes: 100, maxFiles: 5 }).chosen).toEqual([0, 2]);
  });

  test('units that fit into no trunk are left out, be it for their bytes or their files', () => {
    const units = [unit(101), unit(100, 0, 6), unit(100, 0, 5), unit(100)];
    expect(pack(units, { capacityBytes: 100, maxFiles: 5 }).chosen).toEqual([2]);
  });

  test('one is exchanged for the largest that fits in its place, as often as that fills more', () => {
    // 50 and 30 first: the best exchange is 30 for 48, not 50 for 65.
    const units = [unit(50), unit(30), unit(45), unit(65), unit(48)];
    expect(pack(units, { capacityBytes: 100 })).toMatchObject({ chosen: [0, 4], bytes: 98 });
    // 40 for 50, then 15 for 20.
    const twice = [40, 30, 15, 50, 20].map((bytes) => unit(bytes));
    expect(pack(twice, { capacityBytes: 100 })).toMatchObject({ chosen: [1, 3, 4], bytes: 100 });
  });

  test('one is exchanged also where the largest ones would leave an overdue one behind', () => {
    const chosen = (...sizes: number[]) => {
      const [overdue, ...others] = sizes.map((bytes, at) => unit(bytes, at === 0 ? 1_000 : 0));
      return pack([overdue!, ...others], { capacityBytes: 100 }).chosen;
    };
    expect(chosen(25, 35, 55)).toEqual([0, 2]);
    // In whatever order they come.
    expect(chosen(25, 40, 70, 55, 50)).toEqual([0, 2]);
    expect(chosen(55, 20, 90, 30)).toEqual([0, 3]);
  });

  test('what is chosen is in order of age, also after an exchange of the oldest', () => {
    const units = [10, 20, 50, 30, 35].map((bytes) => unit(bytes));
    expect(pack(units, { capacityBytes: 100 })).toMatchObject({ chosen: [1, 2, 3], bytes: 100 });
  });

  test('of thousands, the right ones are exchanged', () => {
    const units = [unit(6, 1_000), ...Array.from({ length: 4_200 }, () => unit(20))];
    units.push(unit(27), unit(27));
    const { chosen, bytes } = pack(units, { capacityBytes: 84_013, maxFiles: 10_000 });
    expect([chosen.length, bytes]).toEqual([4_201, 84_013]);
    expect(chosen.reduce((sum, index) => sum + units[index]!.bytes, 0)).toBe(bytes);
  });

  test('files that an exchange leaves free are for units that fit now', () => {
    // 35 goes for 55, which has one file less; then 10 fits.
    const units = [unit(25, 1_000), unit(35, 0, 2), unit(55), unit(10)];
    expect(pack(units, { capacityBytes: 100, maxFiles: 3 }).chosen).toEqual([0, 2, 3]);
  });

  test('a unit may go for one that has as many files, at the limit of files, too', () => {
    const units = [unit(25, 1_000), unit(35, 0, 3), unit(55, 0, 3)];
    expect(pack(units, { capacityBytes: 100, maxFiles: 4 }).chosen).toEqual([0, 2]);
  });

  test('no exchange breaks the limit of files', () => {
    const units = [unit(50, 0, 2), unit(30, 0, 1), unit(48, 0, 4), unit(40, 0, 3)];
    // 48 has too many files, and 40 just as many as there may be.
    expect(pack(units, { capacityBytes: 100, maxFiles: 5 })).toMatchObject({ chosen: [0, 3] });
  });

  test('no unit is exchanged for one that may rather be left behind', () => {
    const chosen = (penalty: number) => {
      const units = [unit(50), unit(30, 1_000), unit(48, penalty)];
      return pack(units, { capacityBytes: 100 }).chosen;
    };
    expect([900, 1_000].map(chosen)).toEqual([
      [0, 1],
      [0, 2],
    ]);
  });

  test('large units come first where the oldest ones leave more', () => {
    // By age: 34, 34 and 27; by size: 59 and 41.
    const units = [unit(34), unit(34), unit(59), unit(27), unit(41)];
    expect(pack(units, { capacityBytes: 100 }).unfilledBytes).toBe(0);
  });

  test('by size, each goes to the fullest trunk in which it fits', () => {
    const chosen = (...sizes: number[]) =>
      pack(
        sizes.map((bytes) => unit(bytes)),
        { capacityBytes: 100 },
      ).chosen;
    expect(chosen(95, 50, 50)).toEqual([1, 2]);
    expect(chosen(95, 70, 30, 40)).toEqual([1, 2]);
    // 15 to 40 and 35, not to 70.
    expect(chosen(70, 40, 35, 15)).toEqual([1, 2, 3]);
  });

  test('of two units as large the older is taken, which may be overdue', () => {
    const units = [unit(40), unit(65, 100), unit(65)];
    expect(pack(units, { capacityBytes: 100 }).chosen).toEqual([1]);
  });

  test('of two choices that leave as little the older units are taken', () => {
    const units = [unit(50), unit(40), unit(60), unit(30)];
    expect(pack(units, { capacityBytes: 95 })).toMatchObject({ chosen: [0, 1], bytes: 90 });
  });

  test('penalties count as bytes that are left', () => {
    // The oldest two leave 20; the largest two would leave 4, but the first one is overdue.
    const sizes = [45, 35, 48, 48];
    const chosen = (penalty: number) =>
      pack(
        sizes.map((bytes, at) => unit(bytes, at === 0 ? penalty : 0)),
        { capacityBytes: 100 },
      ).chosen;
    expect(chosen(0)).toEqual([2, 3]);
    expect(chosen(100)).toContain(0);
  });
});

describe('the moves of annealing', () => {
  /** No sum of even sizes fills it. */
  const ODD = { capacityBytes: 100_001, maxFiles: 1_000 };
  const even = (count: number) =>
    Array.from({ length: count }, (_, at) => unit(2_000 + 2 * ((at * 7_919) % 9_000)));

  test.each([0, 1, 1_499, 1_500, 1_501, 4_000])('are %i, if so many are allowed', (maxMoves) => {
    const packing = anneal(even(30), ODD, { random: seededRandom(1), maxMoves });
    expect(packing.moves).toBe(maxMoves);
    expect(packing.unfilledBytes % 2).toBe(1);
  });

  test('are 60,000 by default', () => {
    expect(anneal(even(30), ODD, { random: seededRandom(1) }).moves).toBe(60_000);
  });

  test('are none where chance can gain nothing: one size, all units, a full trunk, or none', () => {
    const random = seededRandom(1);
    const limits = { capacityBytes: 100, maxFiles: 10 };
    for (const sizes of [[30, 30, 30, 30], [30, 40], [60, 40, 7], [101], [101, 30, 40]]) {
      const packing = anneal(
        sizes.map((bytes) => unit(bytes)),
        limits,
        { random },
      );
      expect(packing.moves).toBe(0);
    }
    const files = [unit(10, 0, 11), unit(30), unit(40)];
    expect(anneal(files, limits, { random })).toMatchObject({ chosen: [1, 2], moves: 0 });
  });

  test('need no chance to take what is overdue for what is not, and never the other way', () => {
    const units = [unit(95), unit(15, 100)];
    const limits = { capacityBytes: 100, maxFiles: 100 };
    // Chance allows no loss.
    const packing = anneal(units, limits, { random: () => 0.999_999, maxMoves: 2 });
    expect(packing).toMatchObject({ chosen: [1], bytes: 15, moves: 2 });
  });

  test('may drop units for a larger one, and their files with them', () => {
    const units = [unit(48), unit(48), unit(90, 1_000, 2)];
    const limits = { capacityBytes: 100, maxFiles: 2 };
    const packing = anneal(units, limits, { random: () => 0, maxMoves: 3 });
    expect(packing).toMatchObject({ chosen: [2], bytes: 90, moves: 3 });
  });

  test('end once the trunk is full', () => {
    const sizes = [110, 155, 979, 729, 569, 464, 519, 315, 597];
    const units = sizes.map((bytes) => unit(bytes));
    const limits = { capacityBytes: 2_432, maxFiles: 100 };
    const packing = anneal(units, limits, { random: seededRandom(1) });
    expect(packing).toMatchObject({ bytes: 2_432, unfilledBytes: 0 });
    expect(packing.moves).toBeGreaterThan(0);
    // It needs no second start.
    expect(packing.moves).toBeLessThan(1_500);
  });

  test('leave others a turn after five thousand of them, whatever their number', () => {
    let calls = 0;
    const seeded = seededRandom(1);
    const random = () => {
      calls += 1;
      return seeded();
    };
    const steps = annealInSteps(even(1_000), ODD, { random, maxMoves: 40_000 });
    let most = 0;
    let count = 0;
    for (; !steps.next().done; count += 1) {
      most = Math.max(most, calls);
      calls = 0;
    }
    // A move asks three times at most.
    expect(most).toBeLessThanOrEqual(15_000);
    expect(count).toBeGreaterThan(10);
  });

  test('whatever chance says, come to no other end than a choice', () => {
    // Chance always says: the last one, and yes only to what costs nothing.
    const greedy = anneal(even(30), ODD, { random: () => 0.999_999, maxMoves: 3_000 });
    // Chance says yes to all.
    const wild = anneal(even(30), ODD, { random: () => 0, maxMoves: 3_000 });
    for (const { chosen, bytes } of [greedy, wild]) {
      expect(new Set(chosen).size).toBe(chosen.length);
      expect(bytes).toBeGreaterThan(90_000);
    }
  });
});

import {
  allowedShare,
  allowedSmallFileBytes,
  efficiency,
  type Load,
  loadToMove,
  smallFileAllowance,
  smallFileRoom,
  spareLoad,
} from '@stevedore/balance';
import { SeededRandom } from '@stevedore/bench/seeded-random';
import { describe, expect, test } from 'vitest';

const RUNS = 500;

function cases(body: (random: SeededRandom) => void): void {
  for (let seed = 1; seed <= RUNS; seed += 1) body(new SeededRandom(seed));
}

/** Loads of every size, none and far too much among them. */
function anyLoad(random: SeededRandom, capacity: number): Load {
  const bytes = () => (random.next() < 0.1 ? 0 : random.next() * 3 * capacity);
  return { metadataBytes: bytes(), smallFileBytes: bytes() };
}

describe('the load model', () => {
  test('the paper’s equations, by hand', () => {
    const load = { metadataBytes: 60, smallFileBytes: 80 };
    expect(efficiency(load, 100)).toBeCloseTo(1.4);
    expect(allowedShare(load, 100)).toBeCloseTo(0.5);
    expect(allowedSmallFileBytes(load, 100)).toBeCloseTo(40);
    expect(smallFileRoom(load.metadataBytes, 100)).toBeCloseTo(40);
    expect(smallFileRoom(load.metadataBytes, 100, 0.5)).toBe(0);
    expect(loadToMove(load, 100)).toBeCloseTo(40);
    expect(spareLoad({ metadataBytes: 20, smallFileBytes: 30 }, 200, 0.9)).toBeCloseTo(130);
  });

  test('a load within the capacity stays where it is', () => {
    const load = { metadataBytes: 30, smallFileBytes: 70 };
    expect(allowedShare(load, 100)).toBe(1);
    expect(loadToMove(load, 100)).toBe(0);
    expect(allowedShare({ metadataBytes: 500, smallFileBytes: 0 }, 100)).toBe(1);
  });

  test('is never negative and never above B_logic', () => {
    cases((random) => {
      const capacity = 1 + random.next() * 1e8;
      const mark = random.next();
      const load = anyLoad(random, capacity);
      const share = allowedShare(load, capacity, mark);
      expect(share).toBeGreaterThanOrEqual(0);
      expect(share).toBeLessThanOrEqual(1);
      const spare = spareLoad(load, capacity, mark);
      expect(spare).toBeGreaterThanOrEqual(0);
      expect(spare).toBeLessThanOrEqual(capacity);
    });
  });

  test('what may stay and what has to go are the whole small-file load', () => {
    cases((random) => {
      const capacity = 1 + random.next() * 1e8;
      const load = anyLoad(random, capacity);
      const sum = allowedSmallFileBytes(load, capacity) + loadToMove(load, capacity);
      expect(sum).toBeCloseTo(load.smallFileBytes, 3);
    });
  });

  test('small files have the room that metadata leaves, and their share', () => {
    const allowed = (metadataBytes: number, smallFileShare = 0) =>
      smallFileAllowance(metadataBytes, 100, { efficiencyMark: 0.8, smallFileShare });
    expect(allowed(60)).toBeCloseTo(20);
    expect(allowed(60, 0.3)).toBeCloseTo(30);
    expect(allowed(500)).toBe(0);
    expect(allowed(500, 0.1)).toBeCloseTo(10);
    // Never more than the mark, with no metadata at all.
    expect(allowed(0)).toBeCloseTo(80);
  });

  test('once ML is gone, metadata and the rest fit into the mark, unless metadata alone does not', () => {
    cases((random) => {
      const capacity = 1 + random.next() * 1e8;
      const mark = random.next();
      const load = anyLoad(random, capacity);
      const left = load.smallFileBytes - loadToMove(load, capacity, mark);
      const limit = Math.max(mark * capacity, load.metadataBytes);
      expect(load.metadataBytes + left).toBeLessThanOrEqual(limit * (1 + 1e-9) + 1e-6);
    });
  });

  test('a target that takes its spare load does not pass its mark', () => {
    cases((random) => {
      const capacity = 1 + random.next() * 1e8;
      const mark = random.next();
      const load = anyLoad(random, capacity);
      const spare = spareLoad(load, capacity, mark);
      if (spare === 0) return;
      const after = { ...load, smallFileBytes: load.smallFileBytes + spare };
      expect(efficiency(after, capacity)).toBeLessThanOrEqual(mark + 1e-9);
    });
  });
});

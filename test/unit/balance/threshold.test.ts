import { defaultParameters, fileThreshold, globalThreshold, parameters } from '@stevedore/balance';
import { SeededRandom } from '@stevedore/bench/seeded-random';
import { describe, expect, test } from 'vitest';

const MIB = 2 ** 20;

describe('the threshold', () => {
  test('shrinks by p when the store is full, whatever the load', () => {
    for (const loadShare of [0, 0.5, 1]) {
      const next = globalThreshold(MIB, { usedShare: 0.8, loadShare }, defaultParameters);
      expect(next).toBeCloseTo(0.95 * MIB);
    }
  });

  test('grows under little load, shrinks under much, stays in between', () => {
    const at = (loadShare: number) =>
      globalThreshold(MIB, { usedShare: 0.5, loadShare }, defaultParameters);
    expect(at(0.1)).toBeCloseTo(1.05 * MIB);
    expect(at(0.9)).toBeCloseTo(0.95 * MIB);
    for (const between of [0.2, 0.5, 0.8]) expect(at(between)).toBe(MIB);
  });

  test('shrinks under much load no further than the least by load, and under space as ever', () => {
    const at = (oldBytes: number, usedShare: number) => {
      const conditions = { usedShare, loadShare: 1, leastByLoadBytes: MIB };
      return globalThreshold(oldBytes, conditions, defaultParameters);
    };
    expect(at(1.5 * MIB, 0.5)).toBeCloseTo(0.95 * 1.5 * MIB);
    expect(at(1.01 * MIB, 0.5)).toBe(MIB);
    expect(at(MIB, 0.5)).toBe(MIB);
    expect(at(MIB / 2, 0.5)).toBe(MIB / 2);
    expect(at(MIB, 0.8)).toBeCloseTo(0.95 * MIB);
  });

  test('grows up to the maximum and not beyond, shrinks down to the least and can grow again', () => {
    let threshold = MIB;
    for (let i = 0; i < 100; i += 1) {
      threshold = globalThreshold(threshold, { usedShare: 0, loadShare: 0 }, defaultParameters);
    }
    expect(threshold).toBe(defaultParameters.maximumThresholdBytes);
    for (let i = 0; i < 1000; i += 1) {
      threshold = globalThreshold(threshold, { usedShare: 1, loadShare: 0 }, defaultParameters);
    }
    expect(threshold).toBe(defaultParameters.minimumThresholdBytes);
    const again = globalThreshold(threshold, { usedShare: 0, loadShare: 0 }, defaultParameters);
    expect(again).toBeGreaterThan(threshold);
  });

  test('of a file rises with every move it has made, up to the maximum', () => {
    expect(fileThreshold(MIB, 0, defaultParameters)).toBe(MIB);
    expect(fileThreshold(MIB, 4, defaultParameters)).toBeCloseTo(1.2 * MIB);
    expect(fileThreshold(MIB, 1000, defaultParameters)).toBe(2 * MIB);
  });

  test('stays within its bounds whatever comes', () => {
    for (let seed = 1; seed <= 2000; seed += 1) {
      const random = new SeededRandom(seed);
      const minimum = 1 + random.next() * 1e5;
      const marks = [random.next(), random.next()].sort((a, b) => a - b);
      const own = parameters({
        usedMark: random.next(),
        lowLoadMark: marks[0]!,
        highLoadMark: marks[1]!,
        spaceStep: random.next(),
        loadStep: random.next(),
        moveWeight: random.next() * 2,
        minimumThresholdBytes: minimum,
        maximumThresholdBytes: minimum + random.next() * 1e7,
      });
      let threshold = random.next() * 2e7;
      const seen: number[] = [];
      for (let interval = 0; interval < 20; interval += 1) {
        const conditions = { usedShare: random.next() * 1.2, loadShare: random.next() * 3 };
        threshold = globalThreshold(threshold, conditions, own);
        seen.push(threshold, fileThreshold(threshold, random.below(50), own));
      }
      expect(Math.min(...seen)).toBeGreaterThanOrEqual(own.minimumThresholdBytes);
      expect(Math.max(...seen)).toBeLessThanOrEqual(own.maximumThresholdBytes);
    }
  });
});

import { keptShare, type ServedIn, sustainableBytes } from '@stevedore/balance';
import { SeededRandom } from '@stevedore/bench/seeded-random';
import { describe, expect, test } from 'vitest';

function served(perMs: number, requests: number): ServedIn {
  return { bytes: perMs * 100, requests, ms: 100 };
}

/** So many requests that chance is no excuse. */
const MANY = 1e9;
const BOUNDS = { roomBytes: 1000, assuredBytes: 50 };

describe('what metadata bears beside it', () => {
  test('is more where it keeps what it gets alone, and less where it does not', () => {
    const limit = (kept: number, requests = MANY) =>
      sustainableBytes(500, { alone: served(10, requests), beside: served(10 * kept, 1) }, BOUNDS);
    expect(limit(0.97)).toBeCloseTo(500, 0);
    expect(limit(1)).toBeGreaterThan(500);
    expect(limit(0.9)).toBeLessThan(450);
    // One look does not change everything.
    expect(limit(0)).toBe(250);
    expect(limit(5)).toBeCloseTo(550);
    // Of 25 requests a fifth can be missing by chance.
    expect(limit(0.85, 25)).toBeGreaterThan(500);
    expect(limit(0.6, 25)).toBeLessThan(450);
    expect(limit(0.5, 1)).toBe(500);
  });

  test('the share that is kept is that of the rates', () => {
    const alone = { bytes: 300, requests: 3, ms: 10 };
    expect(keptShare({ alone, beside: { bytes: 1500, requests: 15, ms: 100 } })).toBeCloseTo(0.5);
    const nothing = { bytes: 0, requests: 0, ms: 0 };
    expect(keptShare({ alone: nothing, beside: alone })).toBeUndefined();
    expect(keptShare({ alone, beside: nothing })).toBeUndefined();
    expect(keptShare({ alone: { ...nothing, ms: 10 }, beside: alone })).toBeUndefined();
  });

  test('is never below what is assured nor above the room, whatever is seen', () => {
    for (let seed = 1; seed <= 2000; seed += 1) {
      const random = new SeededRandom(seed);
      const some = (most: number) => (random.next() < 0.1 ? 0 : random.next() * most);
      const any = (): ServedIn => ({ bytes: some(1e6), requests: some(50), ms: some(100) });
      const bounds = { roomBytes: some(1000), assuredBytes: some(200) };
      const limit = random.next() < 0.1 ? Number.POSITIVE_INFINITY : some(2000);
      const bytes = sustainableBytes(limit, { alone: any(), beside: any() }, bounds);
      expect(bytes).toBeGreaterThanOrEqual(bounds.assuredBytes);
      expect(bytes).toBeLessThanOrEqual(Math.max(bounds.roomBytes, bounds.assuredBytes));
    }
  });
});

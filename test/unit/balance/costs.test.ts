import { type Accesses, type Costs, costOf, learnedCosts } from '@stevedore/balance';
import { describe, expect, it } from 'vitest';

/** 100 MB/s; a synced write takes 1 ms and a read 0.1 ms, beside their bytes. */
const MEASURED: Costs = {
  bytesPerSecond: 100e6,
  accessBytes: 100_000,
  readAccessBytes: 10_000,
  readByteShare: 0.1,
};
const NONE: Accesses = { count: 0, bytes: 0, ms: 0 };

/** An interval of accesses, each of so many milliseconds and of nanoseconds for a byte. */
function seen(count: number, size: number, accessMs: number, byteNs: number): Accesses {
  const bytes = count * size;
  return { count, bytes, ms: count * accessMs + (bytes * byteNs) / 1e6 };
}

function msOf(costs: Costs, access: 'read' | 'write', bytes: number): number {
  return (costOf(costs, access, bytes) * 1000) / costs.bytesPerSecond;
}

describe('costs that are learnt', () => {
  it('become those of a disk that is slower than it was measured, small and large apart', () => {
    let costs = MEASURED;
    for (let n = 0; n < 400; n += 1) {
      const size = n % 2 === 0 ? 1000 : 1e6;
      costs = learnedCosts(costs, { read: seen(50, size, 8, 20), write: seen(50, size, 20, 40) });
    }
    expect(costs.bytesPerSecond).toBeGreaterThan(20e6);
    expect(costs.bytesPerSecond).toBeLessThan(30e6);
    expect(msOf(costs, 'write', 1000) / 20).toBeCloseTo(1, 1);
    expect(msOf(costs, 'read', 1000) / 8).toBeCloseTo(1, 1);
    expect(msOf(costs, 'read', 1e6) / 28).toBeCloseTo(1, 1);
  });

  it('of reads say nothing of synced writes, nor the other way round', () => {
    const reads = learnedCosts(MEASURED, { read: seen(1000, 1000, 9, 10), write: NONE });
    expect(msOf(reads, 'write', 5000)).toBeCloseTo(msOf(MEASURED, 'write', 5000));
    expect(msOf(reads, 'read', 5000)).toBeGreaterThan(msOf(MEASURED, 'read', 5000) * 1.1);
    const writes = learnedCosts(MEASURED, { write: seen(1000, 1e6, 9, 100), read: NONE });
    expect(msOf(writes, 'read', 5000)).toBeCloseTo(msOf(MEASURED, 'read', 5000));
    expect(writes.bytesPerSecond).toBeLessThan(MEASURED.bytesPerSecond * 0.9);
  });

  it('change little in one interval, less by few accesses, and stay within bounds', () => {
    const stalled = { read: seen(1000, 1000, 1e6, 0), write: seen(1000, 1000, 1e6, 0) };
    const once = learnedCosts(MEASURED, stalled);
    expect(msOf(once, 'write', 1000)).toBeLessThan(msOf(MEASURED, 'write', 1000) * 1.33);
    const byOne = learnedCosts(MEASURED, { read: NONE, write: seen(1, 1000, 1e6, 0) });
    expect(msOf(byOne, 'write', 1000)).toBeLessThan(msOf(MEASURED, 'write', 1000) * 1.01);
    let costs = MEASURED;
    for (let n = 0; n < 1000; n += 1) costs = learnedCosts(costs, stalled);
    expect(msOf(costs, 'write', 0)).toBeLessThanOrEqual(1000.001);
    for (let n = 0; n < 1000; n += 1) {
      const free = { count: 1e6, bytes: 1e12, ms: 1e-6 };
      costs = learnedCosts(costs, { read: free, write: free });
    }
    expect(costs.bytesPerSecond).toBeLessThanOrEqual(1.001e10);
    expect(msOf(costs, 'read', 0)).toBeGreaterThan(0.0009);
    // A cost that was measured as nothing can grow.
    const nothing = { ...MEASURED, readAccessBytes: 0, readByteShare: 0 };
    expect(
      learnedCosts(nothing, { read: seen(100, 10, 1, 0), write: NONE }).readAccessBytes,
    ).toBeGreaterThan(0);
  });

  it('of accesses move by half of the full weight after 32, and only those of accesses', () => {
    // All of the time is that of accesses, and four times as long as expected.
    const write = { count: 32, bytes: 0, ms: 32 * 4 };
    const after = learnedCosts(MEASURED, { write, read: NONE });
    expect(msOf(after, 'write', 0)).toBeCloseTo(4 ** 0.1, 6);
    expect(after.bytesPerSecond).toBeCloseTo(MEASURED.bytesPerSecond, 0);
  });

  it('stay where nothing was accessed, or no time was measured', () => {
    for (const nothing of [
      { count: 0, bytes: 0, ms: 5 },
      { count: 10, bytes: 1000, ms: 0 },
    ]) {
      const after = learnedCosts(MEASURED, { write: nothing, read: nothing });
      for (const access of ['read', 'write'] as const) {
        expect(msOf(after, access, 1000)).toBeCloseTo(msOf(MEASURED, access, 1000), 9);
      }
    }
  });
});

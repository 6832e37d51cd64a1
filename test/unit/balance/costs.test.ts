import { costOf } from '@stevedore/balance';
import { expect, it } from 'vitest';

it('an access costs its bytes, and those that the disk could have served in its time', () => {
  const costs = { bytesPerSecond: 100e6, readMs: 8, writeMs: 16 };
  expect(costOf(costs, 'read', 1000)).toBe(801_000);
  expect(costOf(costs, 'write', 1000)).toBe(1_601_000);
});

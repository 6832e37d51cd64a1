import { expect, test } from 'vitest';
import { inParallel } from '../support/simulator/parallel.js';
import { CRASH_SEED, CRASH_SHARE } from '../support/simulator/sample.js';
import { StagingHistory } from '../support/simulator/staging/history.js';
import { StorageHistory } from '../support/simulator/storage/history.js';

/** Random histories by the hundreds; one that fails says its seed. */

const AT_A_TIME = 24;

test.each([
  ['staging', StagingHistory, 500],
  ['a storage', StorageHistory, 2000],
])('random histories of %s', { timeout: 7_200_000 }, async (name, History, all) => {
  const count = process.env.STEVEDORE_TEST_SEED ? 1 : Math.ceil(all * CRASH_SHARE);
  const seeds = Array.from({ length: count }, (_, index) => CRASH_SEED + index);
  let steps = 0;
  await inParallel(seeds, AT_A_TIME, async (seed) => {
    const history = new History(seed);
    await history.run();
    steps += history.lines.length;
  });
  console.log(`${name}: ${seeds.length} histories, ${steps} steps, seed ${CRASH_SEED}`);
  expect(steps).toBeGreaterThan(seeds.length);
});

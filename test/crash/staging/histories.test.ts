import { expect, test } from 'vitest';
import { inParallel } from '../../support/parallel.js';
import { CRASH_SEED, CRASH_SHARE } from '../../support/simulator/crash-sample.js';
import { runHistory } from '../../support/simulator/history.js';

/** Random histories by the hundreds; one that fails says its seed. */

const AT_A_TIME = 24;
const count = process.env.STEVEDORE_TEST_SEED ? 1 : 500 * CRASH_SHARE;
const seeds = Array.from({ length: count }, (_, index) => CRASH_SEED + index);

test(`${seeds.length} random histories`, { timeout: 600_000 }, async () => {
  let steps = 0;
  await inParallel(seeds, AT_A_TIME, async (seed) => {
    const history = await runHistory(seed);
    steps += history.lines.length;
  });
  console.log(`${seeds.length} histories, ${steps} steps`);
  expect(steps).toBeGreaterThan(seeds.length);
});

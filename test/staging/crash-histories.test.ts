import { expect, test } from 'vitest';
import { runHistory } from '../support/history.js';
import { inParallel } from '../support/parallel.js';

/**
 * Random histories by the hundreds. TEST_SEED runs one of them, TEST_HISTORIES as
 * many as it says, TEST_FIRST_SEED from another seed on.
 */

const AT_A_TIME = 24;
const one = process.env.TEST_SEED;
const count = Number(process.env.TEST_HISTORIES ?? 500);
const first = Number(process.env.TEST_FIRST_SEED ?? 1);
const seeds = one ? [Number(one)] : Array.from({ length: count }, (_, index) => first + index);

test(`${seeds.length} random histories`, { timeout: 600_000 }, async () => {
  let steps = 0;
  await inParallel(seeds, AT_A_TIME, async (seed) => {
    const history = await runHistory(seed);
    steps += history.lines.length;
  });
  console.log(`${seeds.length} histories, ${steps} steps`);
  expect(steps).toBeGreaterThan(seeds.length);
});

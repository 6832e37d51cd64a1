import { expect, test } from 'vitest';
import { inParallel } from '../../support/parallel.js';
import { CRASH_SEED, CRASH_SHARE } from '../../support/simulator/crash-sample.js';
import { runStorageHistory } from '../../support/simulator/storage-history.js';

/** Random histories by the thousand; one that fails says its seed. */

const AT_A_TIME = 24;
const count = process.env.STEVEDORE_TEST_SEED ? 1 : 1000 * CRASH_SHARE;
const seeds = Array.from({ length: count }, (_, index) => CRASH_SEED + index);

// Most answers of the disk are errors that nobody prints.
if (seeds.length > 1) Error.stackTraceLimit = 0;

test(`${seeds.length} random histories`, { timeout: 600_000 }, async () => {
  let steps = 0;
  let files = 0;
  await inParallel(seeds, AT_A_TIME, async (seed) => {
    const history = await runStorageHistory(seed);
    steps += history.lines.length;
    files += history.host.ledger.entries().length;
  });
  console.log(`${seeds.length} histories, ${steps} steps, ${files} files`);
  expect(files).toBeGreaterThan(seeds.length);
});

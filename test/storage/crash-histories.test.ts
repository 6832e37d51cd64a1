import { expect, test } from 'vitest';
import { inParallel } from '../support/parallel.js';
import { runStorageHistory } from '../support/storage-history.js';

/**
 * Random histories by the thousand. TEST_SEED runs one of them, TEST_HISTORIES as
 * many as it says, TEST_FIRST_SEED from another seed on.
 */

const AT_A_TIME = 24;
const one = process.env.TEST_SEED;
const count = Number(process.env.TEST_HISTORIES ?? 1000);
const first = Number(process.env.TEST_FIRST_SEED ?? 1);
const seeds = one ? [Number(one)] : Array.from({ length: count }, (_, index) => first + index);

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

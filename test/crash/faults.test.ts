import { describe, expect, test } from 'vitest';
import { tryFaults } from '../support/simulator/faults.js';
import { CRASH_SHARE, CRASH_SEED as SEED } from '../support/simulator/sample.js';
import { SUBJECTS } from '../support/simulator/subjects.js';

describe.each(SUBJECTS)('faults of the disk of %s', (name, subject) => {
  const sum = { faults: 0, happened: 0 };

  test.each(subject.scripts)('$name', { timeout: 7_200_000 }, async (script) => {
    const { faults, happened } = await tryFaults(subject, script, CRASH_SHARE);
    sum.faults += faults;
    sum.happened += happened;
  });

  test('the enumeration has not shrunk', () => {
    console.log(`${name}: ${sum.happened} of ${sum.faults} faults happened, seed ${SEED}`);
    expect(sum.happened).toBeGreaterThan(subject.least.faults * CRASH_SHARE);
  });
});

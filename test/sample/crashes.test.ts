import { describe, expect, test } from 'vitest';
import { tryFaults } from '../support/simulator/faults.js';
import { tryPoints } from '../support/simulator/points.js';
import { SUBJECTS } from '../support/simulator/subjects.js';

/** A hundredth of the crashes and faults of test/crash. */

const SHARE = 0.01;

describe.each(SUBJECTS)('%s', (_name, subject) => {
  test('keeps what was acknowledged, wherever it crashes', async () => {
    let starts = 0;
    for (const script of subject.scripts)
      starts += (await tryPoints(subject, script, SHARE)).starts;
    expect(starts).toBeGreaterThan(subject.least.starts * SHARE);
  });

  test('keeps what was acknowledged, whichever operation of the disk fails', async () => {
    let happened = 0;
    for (const script of subject.scripts) {
      happened += (await tryFaults(subject, script, SHARE)).happened;
    }
    expect(happened).toBeGreaterThan(subject.least.faults * SHARE);
  });
});

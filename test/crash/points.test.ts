import { describe, expect, test } from 'vitest';
import { tryPoints } from '../support/simulator/points.js';
import { CRASH_SHARE, CRASH_SEED as SEED } from '../support/simulator/sample.js';
import { SUBJECTS } from '../support/simulator/subjects.js';

describe.each(SUBJECTS)('crash points of %s', (name, subject) => {
  const sum = { points: 0, starts: 0 };

  test.each(subject.scripts)('$name', { timeout: 7_200_000 }, async (script) => {
    const { points, starts } = await tryPoints(subject, script, CRASH_SHARE);
    sum.points += points;
    sum.starts += starts;
  });

  test('the enumeration has not shrunk', () => {
    console.log(`${name}: ${sum.points} points, ${sum.starts} different starts, seed ${SEED}`);
    expect(sum.points).toBeGreaterThan(subject.least.points);
    expect(sum.starts).toBeGreaterThan(subject.least.starts);
  });
});

import { describe, expect, test } from 'vitest';
import type { FileRow } from '../../../../packages/staging/dist/filemap/filemap.js';
import {
  type CandidateUnit,
  chooseMembers,
  seededRandom,
  sumOf,
  type UnitLimits,
  unitsInSteps,
  unitsToChooseFrom,
} from '../../../../packages/staging/dist/merge/candidates.js';
import { bytesInTrunk } from '../../../../packages/staging/dist/merge/trunk-plan.js';
import {
  CandidateWindow,
  candidateWindow,
  MAX_FILES,
} from '../../../../packages/staging/dist/merge/waiting-files.js';

let count = 0;

function row(size: number, group?: string, stagedAt = 1000): FileRow {
  const key = Buffer.alloc(16);
  key.writeUInt32BE(++count);
  return {
    key,
    name: 'a.jpg',
    type: 'image/jpeg',
    group,
    size,
    crc32: 0,
    stagedAt,
    expiresAt: undefined,
    was: [],
    local: { at: 'container', segment: 1, position: count },
    trunk: undefined,
  };
}

/** All steps at once. */
function makeUnits(rows: readonly FileRow[], limits: UnitLimits) {
  const steps = unitsInSteps(rows, limits);
  for (;;) {
    const { done, value } = steps.next();
    if (done) return value;
  }
}

const LIMITS = { capacityBytes: 100_000, maxFiles: 65_534, now: 1000, maxAgeMs: 60_000 };

describe('candidates', () => {
  test('files of one group are one unit, in order of arrival, wherever they arrived', () => {
    const rows = [row(10, 'g'), row(20), row(30, 'h'), row(40, 'g'), row(50, 'h')];
    const units = makeUnits(rows, LIMITS);
    expect(units.map((unit) => unit.rows.map((member) => member.size))).toEqual([
      [10, 40],
      [20],
      [30, 50],
    ]);
    for (const unit of units) {
      expect(unit.bytes).toBe(unit.rows.reduce((sum, member) => sum + bytesInTrunk(member), 0));
      expect(unit.files).toBe(unit.rows.length);
    }
    const bytes = rows.reduce((sum, member) => sum + bytesInTrunk(member), 0);
    expect(sumOf(units)).toEqual({ bytes, files: 5 });
  });

  test('of a group larger than a trunk the first part comes, and the rest waits', () => {
    const rows = Array.from({ length: 30 }, () => row(9_000, 'g'));
    const units = makeUnits([...rows, row(10)], LIMITS);
    expect(units.map(({ isCut }) => isCut)).toEqual([true, false]);
    const [part] = units;
    expect(part!.bytes).toBeLessThanOrEqual(LIMITS.capacityBytes);
    expect(part!.rows).toEqual(rows.slice(0, part!.files));
    const rest = makeUnits(rows.slice(part!.files), LIMITS);
    expect(rest[0]!.rows[0]).toBe(rows[part!.files]);
  });

  test('a group that just fits is not cut', () => {
    const rows = [row(10, 'g'), row(20, 'g')];
    const bytes = rows.reduce((sum, member) => sum + bytesInTrunk(member), 0);
    const isCut = (capacityBytes: number) =>
      makeUnits(rows, { ...LIMITS, capacityBytes })[0]!.isCut;
    expect([bytes, bytes - 1].map(isCut)).toEqual([false, true]);
  });

  test('a group of more files than a trunk can have is cut as well', () => {
    const rows = Array.from({ length: 30 }, () => row(9, 'g'));
    const [unit] = makeUnits(rows, { ...LIMITS, maxFiles: 20 });
    expect(unit!.rows).toEqual(rows.slice(0, 20));
  });

  test('groups of which more may follow are not chosen before they are whole', () => {
    const now = 10_000;
    const rows = [row(60_000, 'g', 1_000), row(60_000, 'h', 1_000), row(10, 'h', 9_999)];
    const units = makeUnits(rows, { ...LIMITS, now });
    expect(units.map(({ isOpen }) => isOpen)).toEqual([false, true]);
    expect(unitsToChooseFrom(units, LIMITS, true)).toBeUndefined();
    const single = makeUnits([...rows, row(60_000, undefined, 9_999)], { ...LIMITS, now });
    expect(unitsToChooseFrom(single, LIMITS, true)).toEqual([single[0], single[2]]);
    const later = makeUnits(rows, { ...LIMITS, now: now + 5_000 });
    expect(unitsToChooseFrom(later, LIMITS, true)).toEqual(later);
  });

  test.each([
    ['now', 0, true],
    ['just within the pause', 1_999, true],
    ['a pause ago', 2_000, false],
    ['before the clock was set back', -1, false],
  ])('more files may follow to a group whose only one came %s', (_when, ageMs, isOpen) => {
    const now = 100_000;
    const rows = [row(10, 'g', now - ageMs), row(10, undefined, now - ageMs)];
    const units = makeUnits(rows, { ...LIMITS, now });
    expect(units.map((unit) => unit.isOpen)).toEqual([isOpen, false]);
  });

  test.each([
    ['fills a trunk just so', [[0, 100_000, 1]], true],
    ['lacks a byte', [[0, 99_999, 1]], false],
    ['has as many files as a trunk can have', [[0, 10, 65_534]], true],
    ['lacks a file', [[0, 10, 65_533]], false],
    [
      'leaves no choice beside another',
      [
        [0, 100_400, 1],
        [1, 10, 1],
      ],
      false,
    ],
    [
      'leaves a choice beside another',
      [
        [0, 100_600, 1],
        [1, 10, 1],
      ],
      true,
    ],
  ] as const)('a class that %s', (_what, classes, isEnough) => {
    const units = classes.map(
      ([expiry, bytes, files]): CandidateUnit => ({
        ...{ rows: [], penalty: 0, isOpen: false, isCut: false },
        ...{ expiry, bytes, files },
      }),
    );
    const chosen = isEnough ? units.slice(0, 1) : undefined;
    expect(unitsToChooseFrom(units, LIMITS, true)).toEqual(chosen);
  });

  test('of files with several expiries those are chosen whose class fills a trunk', () => {
    const day = 86_400_000;
    const soon = (size: number, days: number) => ({ ...row(size), expiresAt: days * day });
    const kept = Array.from({ length: 9 }, () => row(10_000));
    const monthly = Array.from({ length: 11 }, (_, hour) => soon(10_000, 28 + hour / 24));
    const rare = soon(10, 2);
    const units = makeUnits([rare, ...kept, ...monthly], LIMITS);
    expect(unitsToChooseFrom(units, LIMITS, true)).toEqual(units.slice(10));
    expect(unitsToChooseFrom(units, LIMITS, false)).toEqual(units.slice(10));
    const few = units.slice(0, -2);
    expect(unitsToChooseFrom(few, LIMITS, true)).toBeUndefined();
    expect(unitsToChooseFrom(few, LIMITS, false)).toEqual(few);
  });

  test('files that were moved out of trunks stand in the order in which they came', () => {
    const moved = { ...row(10, 'g', 500), was: [['id', 7]] as const };
    const units = makeUnits([row(20, 'g', 900), moved], LIMITS);
    expect(units[0]!.rows.map(({ stagedAt }) => stagedAt)).toEqual([500, 900]);
  });

  test('the members of a trunk keep groups contiguous', async () => {
    const random = seededRandom(5);
    const rows = Array.from({ length: 400 }, (_, index) =>
      row(200 + Math.floor(random() * 2000), index % 3 === 0 ? `g${index % 21}` : undefined),
    );
    const units = makeUnits(rows, LIMITS);
    const limits = LIMITS;
    const { rows: members } = await chooseMembers(units, limits, random, () => Promise.resolve());
    const seen = new Set<string>();
    let last: string | undefined;
    for (const { group } of members) {
      if (group !== undefined && group !== last) expect(seen.has(group)).toBe(false);
      if (group !== undefined) seen.add(group);
      last = group;
    }
    expect(members.length).toBeGreaterThan(20);
  });

  test('the penalty of leaving a file behind grows with its age', () => {
    const now = 1_000_000;
    const penaltyAt = (ageMs: number) =>
      makeUnits([row(10, undefined, now - ageMs)], { ...LIMITS, now })[0]!.penalty;
    expect([0, 29_999].map(penaltyAt)).toEqual([0, 0]);
    expect(penaltyAt(30_000)).toBeGreaterThan(0);
    expect(penaltyAt(40_000)).toBeGreaterThan(0);
    expect(penaltyAt(55_000)).toBeGreaterThan(penaltyAt(40_000));
  });

  test.each([
    [59_999, [500_000, 500_000]],
    [60_000, [600_000]],
  ])('after %i ms of 60,000 a file is taken or left for a better fill', async (ageMs, sizes) => {
    const limits = { ...LIMITS, capacityBytes: 1_001_000, now: 100_000 };
    const rows = [row(600_000, undefined, limits.now - ageMs)];
    rows.push(row(500_000, undefined, limits.now), row(500_000, undefined, limits.now));
    const units = makeUnits(rows, limits);
    const pause = () => Promise.resolve();
    const chosen = await chooseMembers(units, limits, seededRandom(5), pause);
    expect(chosen.rows.map(({ size }) => size)).toEqual(sizes);
  });
});

describe('the window of candidates', () => {
  const LIMITS = {
    ...{ now: 0, bytes: 1000, choiceFiles: 1_000, leastBytes: 0, files: 100, filesBeyond: 5 },
    ...{ maxBytes: 4000, maxFiles: 200 },
  };

  function sizesTaken(rows: readonly FileRow[], limits = LIMITS) {
    const window = new CandidateWindow(limits);
    let looked = 0;
    for (const each of rows) {
      looked += 1;
      if (!window.take(each)) break;
    }
    return { looked, sizes: window.rows.map(({ size }) => size) };
  }

  function countTaken(
    capacityBytes: number,
    size: number,
    expiryOf: (at: number) => number | undefined,
  ) {
    const window = candidateWindow(capacityBytes, 0);
    const one = row(size);
    for (let at = 0; window.take({ ...one, expiresAt: expiryOf(at) }); at += 1);
    return window.rows.length;
  }

  test('ends once there are enough bytes or files', () => {
    const rows = Array.from({ length: 20 }, () => row(300));
    expect(sizesTaken(rows)).toEqual({ looked: 5, sizes: [300, 300, 300, 300] });
    expect(sizesTaken(rows, { ...LIMITS, files: 2 })).toEqual({ looked: 3, sizes: [300, 300] });
  });

  test.each([
    ['twice the bytes of a trunk', 50_000, 100, 1_000],
    ['a tenth more than a trunk, of many files', 10_000, 1, 11_000],
    ['that, once there are many', 5_000, 2, 3_000],
    ['as many files as a trunk can have', 1_000_000, 1, MAX_FILES],
  ])('of one class: %s', (_what, capacityBytes, size, files) => {
    expect(countTaken(capacityBytes, size, () => undefined)).toBe(files);
  });

  test.each([
    ['eight times the bytes of a trunk', 10_000, 1_000, 80],
    ['twice as many files as a trunk can have', 1_000_000, 1, 2 * MAX_FILES],
  ])('of many classes, none of which fills a trunk: %s', (_what, capacityBytes, size, files) => {
    const expiryOf = (at: number) => 2 ** (at % 16) * 3_600_000;
    expect(countTaken(capacityBytes, size, expiryOf)).toBe(files);
  });

  test('takes members along that came among others, only so far, and nothing else', () => {
    const rows = [
      ...[row(400, 'g'), row(500, 'h'), row(200)],
      ...[row(1), row(2, 'g'), row(3, 'new'), row(4, 'h'), row(5, 'g'), row(6, 'g')],
    ];
    expect(sizesTaken(rows)).toEqual({ looked: 8, sizes: [400, 500, 200, 2, 4, 5] });
  });

  test('goes on until the files of one expiry class are enough, or there are too many', () => {
    const day = 86_400_000;
    const rows = Array.from({ length: 40 }, (_, index) => ({
      ...row(300),
      ...(index % 2 === 0 ? { expiresAt: day } : {}),
    }));
    expect(sizesTaken(rows).sizes.length).toBe(7);
    expect(sizesTaken(rows, { ...LIMITS, maxBytes: 1200 }).sizes.length).toBe(4);
    expect(sizesTaken(rows, { ...LIMITS, maxFiles: 3 }).sizes.length).toBe(3);
  });
});

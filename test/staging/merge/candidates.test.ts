import { describe, expect, test } from 'vitest';
import type { FileRow } from '../../../packages/staging/dist/filemap/filemap.js';
import {
  chooseMembers,
  seededRandom,
  type UnitLimits,
  unitsInSteps,
  unitsToChooseFrom,
} from '../../../packages/staging/dist/merge/candidates.js';
import { bytesInTrunk } from '../../../packages/staging/dist/merge/trunk-plan.js';
import { CandidateWindow } from '../../../packages/staging/dist/merge/waiting-files.js';

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
    const penaltyAt = (ageMs: number) =>
      makeUnits([row(10, undefined, 0)], { ...LIMITS, now: ageMs })[0]!.penalty;
    expect(penaltyAt(0)).toBe(0);
    expect(penaltyAt(40_000)).toBeGreaterThan(0);
    expect(penaltyAt(55_000)).toBeGreaterThan(penaltyAt(40_000));
    expect(penaltyAt(60_000)).toBeGreaterThan(penaltyAt(59_999));
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

  test('ends once there are enough bytes or files', () => {
    const rows = Array.from({ length: 20 }, () => row(300));
    expect(sizesTaken(rows)).toEqual({ looked: 5, sizes: [300, 300, 300, 300] });
    expect(sizesTaken(rows, { ...LIMITS, files: 2 })).toEqual({ looked: 3, sizes: [300, 300] });
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

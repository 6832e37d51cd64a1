import { describe, expect, test } from 'vitest';
import type { FileRow } from '../../../packages/staging/dist/filemap/filemap.js';
import {
  chooseMembers,
  makeUnits,
  seededRandom,
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

const LIMITS = { capacityBytes: 100_000, now: 1000, maxAgeMs: 60_000 };

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

  test('a group larger than a trunk is cut into parts that fit', () => {
    const rows = Array.from({ length: 30 }, () => row(9_000, 'g'));
    const units = makeUnits(rows, LIMITS);
    expect(units.length).toBe(3);
    for (const unit of units) expect(unit.bytes).toBeLessThanOrEqual(LIMITS.capacityBytes);
    expect(units.flatMap((unit) => unit.rows)).toEqual(rows);
  });

  test('the members of a trunk keep groups contiguous', async () => {
    const random = seededRandom(5);
    const rows = Array.from({ length: 400 }, (_, index) =>
      row(200 + Math.floor(random() * 2000), index % 3 === 0 ? `g${index % 21}` : undefined),
    );
    const units = makeUnits(rows, LIMITS);
    const limits = { ...LIMITS, maxFiles: 65_534 };
    const members = await chooseMembers(units, limits, random, () => Promise.resolve());
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
  const LIMITS = { bytes: 1000, files: 100, filesBeyond: 5 };

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
});

import { expect, test } from 'vitest';
import type { FileMap, FileRow } from '../../../../packages/staging/dist/filemap/filemap.js';
import { planTrunk, planWhole } from '../../../../packages/staging/dist/merge/trunk-plan.js';
import {
  WaitingFiles,
  waitingFrom,
  waitingIn,
} from '../../../../packages/staging/dist/merge/waiting-files.js';

const FILES = 3_000;
const BYTES = 100;

type Kind = 'small' | 'large' | 'moved';

function makeRow(at: number, kind: Kind = 'small', segment = 1, position = at): FileRow {
  const key = Buffer.alloc(16);
  key.writeUInt32BE(at);
  return {
    ...{ key, name: 'a.jpg', type: 'image/jpeg', group: undefined, size: BYTES, crc32: 0 },
    ...{ stagedAt: at, expiresAt: undefined, trunk: undefined },
    was: kind === 'moved' ? [['id', 7]] : [],
    local: { at: kind === 'large' ? 'spool' : 'container', segment, position },
  };
}

function makeRows(count: number, kind: Kind = 'small', first = 0): FileRow[] {
  return Array.from({ length: count }, (_, at) => makeRow(first + at, kind));
}

/** `rows` wait, in this order; `reads` are the positions after which they were read. */
function open(rows: readonly FileRow[] = makeRows(FILES)) {
  const reads: number[] = [];
  let left = rows;
  const countAt = (at: string) => left.filter(({ local }) => local.at === at).length;
  const map = {
    waiting(segment: number, position: number, limit: number) {
      reads.push(position);
      const isAfter = ({ local }: FileRow) =>
        local.segment > segment || (local.segment === segment && local.position > position);
      const first = left.findIndex(isAfter);
      return first < 0 ? [] : left.slice(first, first + limit);
    },
    waitingSpooled: (limit: number) =>
      left.filter(({ local }) => local.at === 'spool').slice(0, limit),
    lastWaiting: () => left.at(-1),
    find: (key: Buffer) => rows.find((row) => row.key.equals(key)),
    counters: () => ({
      waitingFiles: countAt('container'),
      waitingBytes: countAt('container') * BYTES,
      spooledFiles: countAt('spool'),
    }),
  };
  const fileMap = map as unknown as FileMap;
  const plan = (members: readonly FileRow[]) => planTrunk(Buffer.alloc(16), members, 'zip', 1);
  /** They are merged or deleted. */
  const remove = (gone: readonly FileRow[]) => {
    left = left.filter((row) => !gone.includes(row));
  };
  return { files: new WaitingFiles(fileMap), fileMap, rows, plan, reads, remove };
}

function without(rows: readonly FileRow[], ...left: readonly number[]): FileRow[] {
  return rows.filter((_, at) => !left.includes(at));
}

test.each([
  ['', 0],
  [', also where only files of later segments may be merged', 1],
])('files of a plan in flight are not read again to find the oldest one%s', async (_, first) => {
  const { files, rows, plan, reads } = open();
  files.firstSegment = first;
  expect(await files.candidates(1_000_000, 0)).toEqual(rows);
  files.hold(plan(rows.slice(0, 2_500)));
  reads.length = 0;
  // One is deleted.
  expect(files.include(rows[9]!.key)).toBe(false);
  expect(files.oldest()).toBe(rows[2_500]);
  expect(reads).toEqual([2_499]);
});

test.each([0, 1, 7, FILES - 1])(
  'file %i, which the plan left behind, is the oldest',
  async (at) => {
    const { files, rows, plan } = open();
    await files.candidates(1_000_000, 0);
    files.hold(plan(without(rows, at)));
    expect([files.oldest(), files.oldest()]).toEqual([rows[at], rows[at]]);
    expect(await files.candidates(1_000_000, 0)).toEqual([rows[at]]);
  },
);

test('candidates end where there are enough; the files after them are found next', async () => {
  const { files, rows, plan, reads } = open();
  const first = await files.candidates(50_000, 0);
  expect(first).toEqual(rows.slice(0, 1_000));
  expect(reads).toEqual([-1, 999]);
  files.hold(plan(first));
  reads.length = 0;
  expect(files.oldest()).toBe(rows[1_000]);
  expect(reads).toEqual([999]);
});

test('files between the candidates and later members of their groups are found next', async () => {
  const rows = makeRows(30).map((row, at) => (at % 15 === 4 ? { ...row, group: 'g' } : row));
  const { files, plan } = open(rows);
  const first = await files.candidates(500, 0);
  expect(first).toEqual([...rows.slice(0, 10), rows[19]]);
  files.hold(plan(first));
  expect(files.oldest()).toBe(rows[10]);
});

test('files of a plan that was given up wait again, those of a stored one are not read again', async () => {
  const { files, rows, plan, reads, remove } = open();
  await files.candidates(1_000_000, 0);
  const end = files.hold(plan(rows.slice(0, 10)));
  const giveUp = files.hold(plan(rows.slice(10, 20)));
  expect(files.oldest()).toBe(rows[20]);
  remove(rows.slice(0, 10));
  end(true);
  reads.length = 0;
  expect(files.oldest()).toBe(rows[20]);
  expect(reads).toEqual([19]);
  giveUp(false);
  expect(files.oldest()).toBe(rows[10]);
});

test('files are adopted before candidates are read, and while they are', async () => {
  const { files, rows, plan, reads } = open();
  files.hold(plan(rows.slice(0, 1_500)));
  expect([files.oldest(), files.oldest()]).toEqual([rows[1_500], rows[1_500]]);
  expect(reads).toEqual([-1, 0, 1_000, 1_499]);
  const reading = files.candidates(1_000_000, 0);
  files.hold(plan(rows.slice(2_600, 2_700)));
  const found = await reading;
  expect(found).toEqual([...rows.slice(1_500, 2_600), ...rows.slice(2_700)]);
  files.hold(plan(found));
  expect(files.oldest()).toBeUndefined();
  expect(await files.candidates(1_000_000, 0)).toEqual([]);
});

test('a file that is found sound after the candidates were read is found', async () => {
  const { files, rows, plan } = open();
  files.exclude(rows[3]!.key);
  const reading = files.candidates(1_000_000, 0);
  files.include(rows[3]!.key);
  files.hold(plan(await reading));
  expect(files.oldest()).toBe(rows[3]);
});

test('a damaged file is left out until it is sound again', async () => {
  const merged = { ...makeRow(9), trunk: {} } as FileRow;
  const rows = [...makeRows(3), makeRow(3, 'large'), merged];
  const { files, remove } = open(rows);
  remove([merged]);
  for (const at of [0, 3]) files.exclude(rows[at]!.key);
  files.exclude(merged.key);
  files.exclude(Buffer.alloc(16, 1));
  expect(files.damaged).toBe(2);
  expect(files.small()).toEqual({ files: 2, bytes: 2 * BYTES });
  expect(files.count()).toBe(2);
  expect(files.oldest()).toBe(rows[1]);
  expect(await files.candidates(1_000_000, 0)).toEqual(rows.slice(1, 3));
  expect([0, 1].map((at) => files.include(rows[at]!.key))).toEqual([true, false]);
  expect(files.small()).toEqual({ files: 3, bytes: 3 * BYTES });
  expect(files.count()).toBe(3);
  expect(files.oldest()).toBe(rows[0]);
});

test.each([true, false])('a plan has its files to itself until it ends; stored: %s', (isStored) => {
  const rows = [...makeRows(8), makeRow(8, 'large', 2), makeRow(9, 'large', 3)];
  const { files, plan, remove } = open(rows);
  const all = { files: 8, bytes: 8 * BYTES };
  expect(files.oldestSegmentInUse()).toBe(Infinity);
  const endLarge = files.hold(planWhole(Buffer.alloc(16), rows[8]!));
  expect(files.small()).toEqual(all);
  expect(files.oldestSegmentInUse()).toBe(2);
  const end = files.hold(plan([rows[1]!, rows[2]!]));
  expect(files.small()).toEqual({ files: 6, bytes: 6 * BYTES });
  expect([0, 1, 8].map((at) => files.isPacking(rows[at]!.key))).toEqual([false, true, true]);
  expect(files.large(9)).toEqual([rows[9]]);
  expect(files.oldestSegmentInUse()).toBe(1);
  // All of them still wait.
  expect(files.count()).toBe(10);
  if (isStored) remove([rows[1]!, rows[2]!, rows[8]!]);
  end(isStored);
  endLarge(isStored);
  expect(files.small()).toEqual(isStored ? { files: 6, bytes: 6 * BYTES } : all);
  expect(files.isPacking(rows[1]!.key)).toBe(false);
  expect(files.large(9)).toEqual(isStored ? [rows[9]] : rows.slice(8));
});

test('a plan that ends twice is an error, shown by the files or the bytes of the others', () => {
  const rows = makeRows(6).map((row, at) => ({ ...row, size: at < 5 ? 1 : 1_000 }));
  const manyFiles = rows.slice(0, 5);
  const manyBytes = rows.slice(5);
  for (const [members, others] of [
    [manyFiles, manyBytes],
    [manyBytes, manyFiles],
  ] as const) {
    const { files, plan } = open(rows);
    files.hold(plan(others));
    const end = files.hold(plan(members));
    end(true);
    expect(() => end(true)).toThrow();
  }
});

test('large files are no candidates; of the oldest sound ones those come that are free', async () => {
  const rows = [...makeRows(4, 'large'), ...makeRows(2, 'small', 4)];
  const { files } = open(rows);
  expect(files.oldest()).toBe(rows[4]);
  expect(await files.candidates(1_000_000, 0)).toEqual(rows.slice(4));
  files.exclude(rows[0]!.key);
  expect(files.large(2)).toEqual([rows[1], rows[2]]);
  files.hold(planWhole(Buffer.alloc(16), rows[1]!));
  expect(files.large(2)).toEqual([rows[2]]);
});

test('files moved out of trunks wait for the others, new ones do not', async () => {
  const rows = [...makeRows(2, 'moved'), ...makeRows(3, 'small', 2)];
  const { files } = open(rows);
  const all = { files: 5, bytes: 5 * BYTES };
  const moving = files.whileMoving(async () => {
    files.noteMoved(2, 2 * BYTES);
    expect(files.small()).toEqual({ files: 3, bytes: 3 * BYTES });
    expect(files.oldest()).toBe(rows[2]);
    expect(await files.candidates(1_000_000, 0)).toEqual(rows.slice(2));
    throw new Error('no room');
  });
  await expect(moving).rejects.toThrow('no room');
  expect(files.isMoving).toBe(false);
  // A file that is repaired is staged again, too.
  files.noteMoved(1, BYTES);
  expect(files.small()).toEqual(all);
  expect(files.oldest()).toBe(rows[0]);
  expect(await files.candidates(1_000_000, 0)).toEqual(rows);
});

test('files before the first segment that may be merged are left alone', async () => {
  const rows = [1, 2, 3].flatMap((segment) => [
    makeRow(2 * segment, 'small', segment, 0),
    makeRow(2 * segment + 1, 'large', segment, 1),
  ]);
  const { files } = open(rows);
  files.firstSegment = 2;
  expect(files.oldest()).toBe(rows[2]);
  expect(await files.candidates(1_000_000, 0)).toEqual([rows[2], rows[4]]);
  expect(files.large(9)).toEqual([rows[3], rows[5]]);
  files.firstSegment = 0;
  files.lookAgain();
  expect(files.oldest()).toBe(rows[0]);
});

test('a flush waits for the files up to the last one of now, but for no damaged one', () => {
  const rows = [makeRow(0, 'small', 1, 5), makeRow(1, 'small', 1, 9), makeRow(2, 'small', 2, 7)];
  const { files, remove } = open(rows);
  const placed = ([segment, position]: [number, number]) => ({ segment, position });
  const places = (
    [
      [1, 4],
      [1, 5],
      [1, 9],
      [2, 0],
      [2, 7],
      [3, 0],
    ] as [number, number][]
  ).map(placed);
  const areAwaited = () => places.map((place) => files.isWaitingUpTo(place));
  expect(files.last()).toMatchObject({ segment: 2, position: 7 });
  expect(areAwaited()).toEqual([false, true, true, true, true, true]);
  files.exclude(rows[0]!.key);
  expect(areAwaited()).toEqual([false, false, true, true, true, true]);
  remove([rows[1]!]);
  expect(areAwaited()).toEqual([false, false, false, false, true, true]);
  remove(rows);
  expect(areAwaited()).not.toContain(true);
  expect(files.last()).toEqual({ segment: 0, position: -1 });
});

test('all files of a segment are listed, and all from it on', () => {
  const rows = [1, 2, 3].flatMap((segment) =>
    Array.from({ length: 1_200 }, (_, at) => makeRow(segment * 5_000 + at, 'small', segment, at)),
  );
  const { fileMap } = open(rows);
  expect([...waitingIn(fileMap, 2)]).toEqual(rows.slice(1_200, 2_400));
  expect([...waitingFrom(fileMap, 2)]).toEqual(rows.slice(1_200));
});

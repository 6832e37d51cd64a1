import { expect, test } from 'vitest';
import type { FileMap, FileRow } from '../../../packages/staging/dist/filemap/filemap.js';
import { planTrunk } from '../../../packages/staging/dist/merge/trunk-plan.js';
import { WaitingFiles } from '../../../packages/staging/dist/merge/waiting-files.js';

const FILES = 3_000;

function makeRow(position: number): FileRow {
  const key = Buffer.alloc(16);
  key.writeUInt32BE(position);
  return {
    ...{ key, name: 'a.jpg', type: 'image/jpeg', group: undefined, size: 100, crc32: 0 },
    ...{ stagedAt: position, expiresAt: undefined, was: [], trunk: undefined },
    local: { at: 'container', segment: 1, position },
  };
}

/** Waiting files at positions 0 to FILES - 1; `reads` are the positions after which it was read. */
function open() {
  const reads: number[] = [];
  const rows = Array.from({ length: FILES }, (_, position) => makeRow(position));
  const fileMap = {
    waiting(segment: number, position: number, limit: number) {
      reads.push(position);
      const first = segment > 1 ? FILES : Math.max(0, segment < 1 ? 0 : position + 1);
      return rows.slice(first, first + limit);
    },
    find: (key: Buffer) => rows[key.readUInt32BE()],
  };
  const files = new WaitingFiles(fileMap as unknown as FileMap);
  const plan = (members: readonly FileRow[]) => planTrunk(Buffer.alloc(16), members, 'zip', 1);
  return { files, rows, plan, reads };
}

test('files of a plan in flight are not read again to find the oldest one', async () => {
  const { files, rows, plan, reads } = open();
  expect(await files.candidates(1_000_000, 0)).toEqual(rows);
  files.hold(plan(rows.slice(0, 2_500)));
  reads.length = 0;
  expect(files.oldest()).toBe(rows[2_500]);
  expect(reads).toEqual([2_499]);
});

test('a file that the plan left behind is the oldest', async () => {
  const { files, rows, plan } = open();
  await files.candidates(1_000_000, 0);
  files.hold(plan([...rows.slice(0, 7), ...rows.slice(8)]));
  expect(files.oldest()).toBe(rows[7]);
  expect(await files.candidates(1_000_000, 0)).toEqual([rows[7]]);
});

test('candidates end where there are enough; the files after them are found next', async () => {
  const { files, rows, plan } = open();
  const first = await files.candidates(50_000, 0);
  expect(first.length).toBeLessThan(FILES);
  files.hold(plan(first));
  expect(files.oldest()).toBe(rows[first.length]);
});

test('files of a plan that was given up wait again', async () => {
  const { files, rows, plan } = open();
  await files.candidates(1_000_000, 0);
  const release = files.hold(plan(rows.slice(0, 10)));
  files.hold(plan(rows.slice(10, 20)));
  expect(files.oldest()).toBe(rows[20]);
  release(false);
  expect(files.oldest()).toBe(rows[0]);
});

test('a file that is found sound after the candidates were read is found', async () => {
  const { files, rows, plan } = open();
  files.exclude(rows[3]!.key);
  const reading = files.candidates(1_000_000, 0);
  files.include(rows[3]!.key);
  files.hold(plan((await reading).filter((row) => row !== rows[3])));
  expect(files.oldest()).toBe(rows[3]);
});

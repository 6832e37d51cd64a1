import { crc32 } from 'node:zlib';
import { parseTrunkDirectory, parseTrunkEnd, TAIL_BYTES } from '@stevedore/protocol';
import { type FileRow, smallFile } from '@stevedore/staging';
import { expect, test } from 'vitest';
import {
  directTrunk,
  planTrunk,
  planWhole,
} from '../../../../packages/staging/dist/merge/trunk-plan.js';

const TASK = Buffer.alloc(16, 7);

function fileOf(at: number) {
  const body = Buffer.alloc(4);
  body.writeUInt32BE(at);
  const key = Buffer.concat([Buffer.alloc(12), body]);
  const about = { key, name: 'a.txt', type: 'text/plain', group: undefined, stagedAt: 1_000 };
  return smallFile({ ...about, size: 4, crc32: crc32(body) }, [body]);
}

test('the directory of a trunk of many files leads to the bytes of each', () => {
  const order = Array.from({ length: 1_201 }, (_, at) => at);
  const { chunks, size } = directTrunk(TASK, order.map(fileOf));
  const trunk = Buffer.concat(chunks);
  const end = parseTrunkEnd(trunk.subarray(-TAIL_BYTES), size);
  const { directoryOffset: from, directoryBytes } = end;
  const entries = parseTrunkDirectory(trunk.subarray(from, from + directoryBytes), end);
  expect(entries.map(({ offset }) => trunk.readUInt32BE(offset))).toEqual(order);
});

test('a large file is stored as it is, with its extension', () => {
  const row = { ...fileOf(9), was: [] } as unknown as FileRow;
  const members = [{ key: row.key, offset: 0, size: 4 }];
  expect(planWhole(TASK, row)).toMatchObject({ extension: 'txt', size: 4, members });
});

test.each([
  ['the last of its files does', [2_000, 9_000, 1_000], 9_000],
  ['never, if one of its files does not', [2_000, undefined, 1_000], undefined],
] as const)('a trunk expires when %s', (_when, ends, lastExpiry) => {
  const rows = ends.map((expiresAt, at) => ({
    ...fileOf(at),
    was: [],
    local: { at: 'gone' },
    expiresAt,
  }));
  expect(planTrunk(TASK, rows as unknown as FileRow[], 'zip').lastExpiry).toBe(lastExpiry);
});

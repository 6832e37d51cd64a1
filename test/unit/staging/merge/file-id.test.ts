import {
  appenderSizeField,
  encodeFields,
  encodePath,
  encodeTail,
  normalSizeField,
} from '@stevedore/protocol';
import { type FileRow, fileIdOf } from '@stevedore/staging';
import { expect, test } from 'vitest';

const FIELDS = { source: '10.1.2.3', createdAtSeconds: 1_700_000_000, crc32: 7 };
const PLACE = `group1/${encodePath(0, 0, 0)}`;

function row(change: Partial<NonNullable<FileRow['trunk']>>): FileRow {
  return {
    key: Buffer.alloc(16),
    name: 'a.jpg',
    type: 'image/jpeg',
    group: undefined,
    size: 100,
    crc32: 1,
    stagedAt: 0,
    expiresAt: undefined,
    was: [],
    local: { at: 'container', segment: 1, position: 92 },
    trunk: {
      id: 1,
      kind: 'trunk',
      fileId: `${PLACE}${encodeFields({ ...FIELDS, sizeField: normalSizeField(9000, 1) })}.merged`,
      offset: 50,
      isThin: false,
      ...change,
    },
  };
}

test('a merged small file has a slice id, a large one the id of its own', () => {
  expect(fileIdOf(row({}))).toMatch(/^group1\/M00\/00\/00\/.{49}\.jpg$/);
  const fileId = `${PLACE}${encodeFields({ ...FIELDS, sizeField: normalSizeField(9000, 1) })}.jpg`;
  expect(fileIdOf(row({ kind: 'whole', fileId }))).toBe(fileId);
});

test('a file that is not merged has none', () => {
  expect(fileIdOf({ ...row({}), trunk: undefined })).toBeUndefined();
});

test('a file has none in a trunk from whose id no slice id can be made', () => {
  const fields = encodeFields({ ...FIELDS, sizeField: normalSizeField(9000, 1) });
  const slot = `${PLACE}${fields}${'A'.repeat(16)}.merged`;
  expect(fileIdOf(row({ fileId: slot }))).toBeUndefined();
  const renamed = `${PLACE}${fields}${encodeTail('jpg', '1234567')}`;
  expect(fileIdOf(row({ fileId: renamed }))).toBeUndefined();
  const appender = encodeFields({ ...FIELDS, sizeField: appenderSizeField(1) });
  expect(fileIdOf(row({ fileId: `${PLACE}${appender}.merged` }))).toBeUndefined();
});

test('a file in a trunk that will be joined with others has no id yet', () => {
  expect(fileIdOf(row({ isThin: true }))).toBeUndefined();
});

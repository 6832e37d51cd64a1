import { randomBytes } from 'node:crypto';
import { crc32 } from 'node:zlib';
import { expect, test } from 'vitest';
import {
  BLOCK_BYTES,
  BlockChecksums,
  blockCrc,
  isBlockListOf,
} from '../../../../packages/staging/dist/container/block-checksums.js';

const SIZES = [0, 1, 5, BLOCK_BYTES - 1, BLOCK_BYTES, BLOCK_BYTES + 1, 3 * BLOCK_BYTES + 77];

test.each(SIZES)(
  'the list of a file of %i bytes tells the checksums of parts and whole',
  (size) => {
    const bytes = randomBytes(size);
    const checksums = new BlockChecksums();
    for (let at = 0; at < size; ) {
      const step = 1 + Math.floor(Math.random() * BLOCK_BYTES * 1.5);
      checksums.add(bytes.subarray(at, at + step));
      at += step;
    }
    const list = checksums.list();
    const whole = crc32(bytes);
    expect(checksums.crc32).toBe(whole);
    for (let block = 0; block * BLOCK_BYTES < size; block++) {
      const part = bytes.subarray(block * BLOCK_BYTES, (block + 1) * BLOCK_BYTES);
      expect(blockCrc(list, block)).toBe(crc32(part));
    }
    expect(isBlockListOf(list, { size, crc32: whole })).toBe(true);
    expect(isBlockListOf(list, { size, crc32: whole ^ 1 })).toBe(false);
    expect(isBlockListOf(list, { size: size + BLOCK_BYTES, crc32: whole })).toBe(false);
    if (list.length > 0) {
      list[list.length - 2]! ^= 4;
      expect(isBlockListOf(list, { size, crc32: whole })).toBe(false);
    }
  },
);

test('a list of many blocks grows as it must', () => {
  const checksums = new BlockChecksums();
  const block = randomBytes(BLOCK_BYTES);
  for (let count = 0; count < 200; count++) checksums.add(block);
  expect(checksums.list()).toHaveLength(800);
  let crc = 0;
  for (let count = 0; count < 200; count++) crc = crc32(block, crc);
  expect(checksums.crc32).toBe(crc);
});

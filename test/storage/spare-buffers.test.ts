import { expect, it } from 'vitest';
import { SpareBuffers } from '../../packages/storage/dist/slices/slice-reader.js';

const KIB = 1024;

it('gives memory back again, a larger piece where there is no smaller one', () => {
  const spare = new SpareBuffers(1024 * KIB);
  const first = spare.take(200 * KIB);
  expect(first.length).toBe(200 * KIB);
  spare.giveBack(first);
  expect(spare.bytes).toBe(256 * KIB);
  const small = spare.take(5);
  expect(small.length).toBe(5);
  expect(small.buffer).toBe(first.buffer);
  expect(spare.bytes).toBe(0);
  // It is in use: nobody else is given it.
  expect(spare.take(5).buffer).not.toBe(first.buffer);
});

it('takes the smallest piece that is large enough', () => {
  const spare = new SpareBuffers(1024 * KIB);
  const sizes = [512, 64, 256].map((kib) => spare.take(kib * KIB));
  for (const each of sizes) spare.giveBack(each);
  expect(spare.take(100 * KIB).buffer.byteLength).toBe(256 * KIB);
  expect(spare.take(100 * KIB).buffer.byteLength).toBe(512 * KIB);
  expect(spare.take(64 * KIB).buffer.byteLength).toBe(64 * KIB);
});

it('keeps no more than it may, and larger pieces rather than smaller ones', () => {
  const spare = new SpareBuffers(256 * KIB);
  const small = Array.from({ length: 6 }, () => spare.take(64 * KIB));
  for (const each of small) spare.giveBack(each);
  expect(spare.bytes).toBe(256 * KIB);
  const large = spare.take(128 * KIB);
  spare.giveBack(large);
  expect(spare.bytes).toBe(256 * KIB);
  expect(spare.take(128 * KIB).buffer).toBe(large.buffer);
  // More than all it may keep: nothing goes for it.
  const before = spare.bytes;
  spare.giveBack(spare.take(512 * KIB));
  expect(spare.bytes).toBe(before);
});

import type { StoredFile } from '@stevedore/client';
import { defaultTransferLimits, UnsentBytes } from '@stevedore/middleware/core';
import { expect, onTestFinished, test } from 'vitest';
import { shortContent } from '../../../packages/middleware/dist/core/http/paced-content.js';

/** Short content is read without waiting, as long as there is memory for it. */

const LIMIT = 100_000;

function setup() {
  const unsent = new UnsentBytes({ ...defaultTransferLimits, maxUnsentBytes: LIMIT });
  onTestFinished(() => unsent.close());
  const reads: number[] = [];
  const read = (size: number) => {
    const contentNow = () => {
      reads.push(size);
      return Buffer.alloc(size);
    };
    const file = { size, contentNow } as unknown as StoredFile;
    return shortContent(file, { unsent, isGone: () => false });
  };
  return { unsent, reads, read };
}

test('a short file is read, a longer one is not', () => {
  const { reads, read } = setup();
  expect(read(20_000)?.length).toBe(20_000);
  expect(read(200_000)).toBeUndefined();
  expect(reads).toEqual([20_000]);
});

test('nothing is read while clients have not taken what the memory has room for', () => {
  const { unsent, reads, read } = setup();
  const hold = unsent.hold();
  hold.wait(LIMIT, { trim: () => LIMIT, end: () => undefined });
  expect(read(20_000)).toBeUndefined();
  hold.release();
  expect(read(20_000)?.length).toBe(20_000);
  expect(reads).toEqual([20_000]);
});

test('a download that has ended holds nothing again, whatever was still under way', () => {
  const { unsent } = setup();
  const [hold, other] = [unsent.hold(), unsent.hold()];
  hold.release();
  // Full: it would have to wait for room.
  other.wait(LIMIT, { trim: () => LIMIT, end: () => undefined });
  expect(unsent.reserve(hold, LIMIT / 4, () => false)).toBeUndefined();
  hold.wait(LIMIT, { trim: () => LIMIT, end: () => undefined });
  other.release();
  expect(unsent.stats()).toMatchObject({ bytes: 0, stalled: 0 });
});

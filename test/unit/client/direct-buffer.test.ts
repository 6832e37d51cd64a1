import { crc32 } from 'node:zlib';
import { smallFile } from '@stevedore/staging';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { DirectBuffer } from '../../../packages/client/dist/put/direct-buffer.js';
import { MemoryTrunkStore } from '../../support/memory-trunk-store.js';

/** How long files wait for others in direct mode. */

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

function opened() {
  const trunkStore = new MemoryTrunkStore();
  const buffer = new DirectBuffer({
    trunkStore,
    newTaskId: () => Buffer.alloc(16, 1),
    maxWaitMs: 50,
    maxBytes: 2 ** 20,
  });
  const put = (text: string) => {
    const bytes = Buffer.from(text);
    const key = Buffer.alloc(16, text);
    const about = { key, name: 'a.txt', type: 'text/plain', group: 'g', stagedAt: 1 };
    return buffer.put(smallFile({ ...about, size: bytes.length, crc32: crc32(bytes) }, [bytes]));
  };
  return { trunkStore, put };
}

test('the first file waits its time, whatever comes meanwhile, and they are written together', async () => {
  const { trunkStore, put } = opened();
  const ids = [put('one')];
  await vi.advanceTimersByTimeAsync(40);
  ids.push(put('two'));
  await vi.advanceTimersByTimeAsync(9);
  expect(trunkStore.files.size).toBe(0);
  await vi.advanceTimersByTimeAsync(1);
  expect(trunkStore.files.size).toBe(1);
  expect(new Set(await Promise.all(ids)).size).toBe(2);
});

test('what comes after a write waits its own time', async () => {
  const { trunkStore, put } = opened();
  void put('one');
  await vi.advanceTimersByTimeAsync(50);
  void put('two');
  await vi.advanceTimersByTimeAsync(49);
  expect(trunkStore.files.size).toBe(1);
  await vi.advanceTimersByTimeAsync(1);
  expect(trunkStore.files.size).toBe(2);
});

import { randomBytes } from 'node:crypto';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { crc32 } from 'node:zlib';
import type { FileStore, OpenOptions, Receipt } from '@stevedore/client';
import { parseFileId, parseSliceId } from '@stevedore/protocol';
import { describe, expect, test } from 'vitest';
import type { TestCluster } from '../../support/cluster/index.js';
import { openStore } from '../../support/store.js';
import { temporaryFolder } from '../../support/temporary.js';
import { testCluster } from '../../support/test-cluster.js';

/** Files that go to FastDFS at once, past the container. */

const storeOn = ({ trackers }: TestCluster, options: OpenOptions = {}): Promise<FileStore> =>
  openStore({ trackers, directMaxWait: '20ms', ...options });

function sliceOf({ fileId }: Receipt) {
  return parseSliceId(parseFileId(fileId!)!);
}

describe('put in direct mode', () => {
  test('is acknowledged with an id once FastDFS has it, and leaves nothing here', async () => {
    const directory = temporaryFolder();
    const store = await storeOn(await testCluster(), { directory });
    const bytes = randomBytes(20_000);
    const receipt = await store.put(bytes, { mode: 'direct', name: 'a.jpg' });
    expect(receipt).toMatchObject({ state: 'merged', size: 20_000, crc32: crc32(bytes) });
    expect(receipt.fileId).toMatch(/^group1\/M00\/.*\.jpg$/);
    expect(receipt.key).toBe(receipt.fileId);
    expect((await (await store.get(receipt.key)).bytes()).equals(bytes)).toBe(true);
    expect(store.stats()).toMatchObject({ stagedFiles: 0, mergedFiles: 0, acknowledgedFiles: 1 });
    expect(readdirSync(join(directory, 'spool'))).toEqual([]);
  });

  test('writes the files of a group side by side into one file of one storage', async () => {
    const cluster = await testCluster();
    const store = await storeOn(cluster, { directMaxWait: '200ms' });
    const bodies = Array.from({ length: 12 }, (_, index) => randomBytes(500 + index * 700));
    const receipts = await Promise.all(
      bodies.map((body, index) =>
        store.put(body, {
          mode: 'direct',
          name: `${index}.png`,
          type: 'image/png',
          group: index % 2 === 0 ? 'even' : 'odd',
        }),
      ),
    );
    const even = receipts.filter((_, index) => index % 2 === 0).map((each) => sliceOf(each)!);
    const odd = receipts.filter((_, index) => index % 2 === 1).map((each) => sliceOf(each)!);
    for (const slices of [even, odd]) {
      expect(new Set(slices.map(({ trunk }) => trunk.name)).size).toBe(1);
      const offsets = slices.map(({ offset }) => offset);
      expect(offsets).toEqual([...offsets].sort((a, b) => a - b));
    }
    expect(even[0]!.trunk.name).not.toBe(odd[0]!.trunk.name);
    // Any other store reads them by their ids, with name, type and group.
    const other = await storeOn(cluster);
    for (const [index, { fileId }] of receipts.entries()) {
      const file = await other.get(fileId!);
      expect(file).toMatchObject({ name: `${index}.png`, type: 'image/png' });
      expect((await file.bytes()).equals(bodies[index]!)).toBe(true);
    }
  });

  test('does not wait once enough has been collected', async () => {
    const slow = { directMaxWait: '1h', directBuffer: '64KiB' } as const;
    const store = await storeOn(await testCluster(), slow);
    const receipts = await Promise.all(
      Array.from({ length: 8 }, () =>
        store.put(randomBytes(8192), { mode: 'direct', group: 'page' }),
      ),
    );
    expect(new Set(receipts.map((each) => sliceOf(each)!.trunk.name)).size).toBe(1);
  });

  test('writes what is collected when the store is flushed or closed', async () => {
    const store = await storeOn(await testCluster(), { directMaxWait: '1h' });
    const first = store.put('first', { mode: 'direct' });
    await new Promise((resolve) => setImmediate(resolve));
    await store.flush();
    expect((await first).state).toBe('merged');
    const last = store.put('last', { mode: 'direct' });
    await new Promise((resolve) => setImmediate(resolve));
    await store.close();
    expect((await last).fileId).toMatch(/^group1/);
  });

  test('takes empty files and large ones', async () => {
    const store = await storeOn(await testCluster(), { smallFileLimit: '64KiB' });
    const large = randomBytes(300_000);
    const { fileId } = await store.put(large, { mode: 'direct', name: 'film.mp4', group: 'g' });
    expect((await (await store.get(fileId!)).bytes()).equals(large)).toBe(true);
    const [empty, other] = await Promise.all(
      ['', 'other'].map((text) => store.put(text, { mode: 'direct', group: 'g' })),
    );
    expect((await (await store.get(empty!.key)).bytes()).length).toBe(0);
    expect((await (await store.get(other!.key)).bytes()).toString()).toBe('other');
  });

  test('is refused when FastDFS is away, and tells so', async () => {
    const cluster = await testCluster();
    const store = await storeOn(cluster);
    await cluster.close();
    const outcomes = await Promise.allSettled(
      ['a', 'b', 'c'].map((text) => store.put(text, { mode: 'direct', group: 'g' })),
    );
    const refused = { status: 'rejected', reason: { code: 'storage_unavailable' } };
    for (const outcome of outcomes) expect(outcome).toMatchObject(refused);
    expect(store.stats()).toMatchObject({ failedUploads: 3, stagedFiles: 0 });
  });

  test('does not promise what it cannot keep', async () => {
    const store = await storeOn(await testCluster());
    const expiring = store.put('x', { mode: 'direct', expiresAt: new Date(Date.now() + 1000) });
    await expect(expiring).rejects.toMatchObject({ code: 'invalid_option' });
  });
});

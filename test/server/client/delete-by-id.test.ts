import { randomBytes } from 'node:crypto';
import type { FileStore, OpenOptions } from '@stevedore/client';
import { deleteFile, formatFileId, parseFileId, parseSliceId, Status } from '@stevedore/protocol';
import { describe, expect, test } from 'vitest';
import { HOUR_MS, movableTime } from '../../support/fake-clock.js';
import { openStore as openSmall } from '../../support/store.js';
import { testCluster } from '../../support/test-cluster.js';

/** Deletion by FastDFS ids: of slices, of large files, of what this store never staged. */

const openStore = (options: OpenOptions = {}): Promise<FileStore> =>
  openSmall({ directMaxWait: '20ms', ...options });

async function isGone(store: FileStore, id: string): Promise<boolean> {
  return store.get(id).then(
    () => false,
    (error: { code: string }) => error.code === 'not_found',
  );
}

describe('a file that was staged here', () => {
  test('is deleted by its slice id, and gone by its key', async () => {
    const store = await openStore();
    const [gone, kept] = await Promise.all(['gone', 'kept'].map((text) => store.put(text)));
    await store.flush();
    const id = await store.settled(gone!.key);
    await store.delete(id);
    expect(await isGone(store, id)).toBe(true);
    expect(await isGone(store, gone!.key)).toBe(true);
    await expect(store.delete(id)).rejects.toMatchObject({ code: 'not_found' });
    expect(String(await (await store.get(kept!.key)).bytes())).toBe('kept');
  });

  test('is deleted by the id of a large file', async () => {
    const store = await openStore({ smallFileLimit: '64KiB' });
    const { key } = await store.put(randomBytes(300_000));
    await store.flush();
    const id = await store.settled(key);
    await store.delete(id);
    expect([await isGone(store, id), await isGone(store, key)]).toEqual([true, true]);
  });

  test('is gone by its id once it has expired', async () => {
    const later = movableTime();
    const store = await openStore({ smallFileLimit: '64KiB' });
    const expiresAt = new Date(Date.now() + HOUR_MS);
    const files = await Promise.all(
      ['small', randomBytes(300_000)].map((body) => store.put(body, { expiresAt })),
    );
    await store.flush();
    const ids = await Promise.all(files.map(({ key }) => store.settled(key)));
    later(HOUR_MS);
    for (const id of ids) {
      expect(await isGone(store, id)).toBe(true);
      await expect(store.delete(id)).rejects.toMatchObject({ code: 'not_found' });
    }
  });

  test('is not deleted by the id of the whole trunk', async () => {
    const store = await openStore();
    const { key } = await store.put('bytes');
    await store.flush();
    const slice = parseSliceId(parseFileId(await store.settled(key))!)!;
    const trunk = formatFileId(slice.trunk);
    await expect(store.delete(trunk)).rejects.toMatchObject({ code: 'invalid_id' });
    expect(String(await (await store.get(key)).bytes())).toBe('bytes');
  });
});

describe('a file that was put in direct mode', () => {
  test('is deleted by its key, which is its id', async () => {
    const cluster = await testCluster();
    const store = await openStore({ trackers: cluster.trackers });
    const { key } = await store.put('alone', { mode: 'direct' });
    await store.delete(key);
    expect(await isGone(store, key)).toBe(true);
  });

  test('is gone from every store, where the storage knows slices', async () => {
    const store = await openStore();
    const bodies = Array.from({ length: 4 }, () => randomBytes(5_000));
    const put = (body: Buffer) => store.put(body, { mode: 'direct', group: 'page' });
    const keys = (await Promise.all(bodies.map(put))).map(({ key }) => key);
    expect(keys.every((key) => parseSliceId(parseFileId(key)!))).toBe(true);
    await (await store.get(keys[1]!)).bytes();
    await store.delete(keys[1]!);
    const other = await openStore({ trackers: store.trackers });
    for (const each of [store, other]) {
      expect(await isGone(each, keys[1]!)).toBe(true);
      for (const index of [0, 2, 3]) {
        const file = await each.get(keys[index]!);
        expect((await file.bytes()).equals(bodies[index]!)).toBe(true);
      }
    }
    await expect(store.delete(keys[1]!)).rejects.toMatchObject({ code: 'not_found' });
  });

  test('stays where the storage knows no slices, and that is said', async () => {
    const cluster = await testCluster();
    const store = await openStore({ trackers: cluster.trackers });
    const put = (text: string) => store.put(text, { mode: 'direct', group: 'page' });
    const [first] = await Promise.all(['one', 'two'].map(put));
    cluster.storages[0]!.refuse(deleteFile.code, Status.notFound);
    await expect(store.delete(first!.key)).rejects.toMatchObject({ code: 'unsupported' });
    expect(String(await (await store.get(first!.key)).bytes())).toBe('one');
  });
});

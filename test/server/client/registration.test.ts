import { randomBytes } from 'node:crypto';
import { formatFileId, parseFileId, parseSliceId } from '@stevedore/protocol';
import { expect, test } from 'vitest';
import { HOUR_MS, movableTime } from '../../support/fake-clock.js';
import { forgetFileMap, until } from '../../support/staging.js';
import { openStore } from '../../support/store.js';
import { temporaryFolder } from '../../support/temporary.js';
import { clusterSetup } from '../../support/test-cluster.js';

/** Files that another client stored in FastDFS get keys where they are. */

async function setUp() {
  const { client, cluster } = await clusterSetup();
  const directory = temporaryFolder();
  const opened = async () => {
    const store = await openStore({ directory, trackers: cluster.trackers });
    return { ...store, store, register: store.register!.bind(store) };
  };
  return { client, directory, openStore: opened };
}

test('a file gets a key without being copied, once, and keeps it when the FileMap is lost', async () => {
  const { client, directory, openStore } = await setUp();
  const bytes = randomBytes(30_000);
  const fileId = await client.upload(bytes, { extension: 'jpg' });
  const { store, register } = await openStore();
  const about = { name: 'a photo.jpg', type: 'image/jpeg', group: 'old' };
  const [first, second] = await Promise.all([register(fileId, about), register(fileId, about)]);
  expect(first).toEqual(second);
  expect(first).toMatchObject({ ...about, fileId, size: 30_000, state: 'merged' });
  expect((await register(fileId, { name: 'another' })).key).toBe(first.key);
  expect((await store.get(first.key)).name).toBe('a photo.jpg');
  expect((await store.get(fileId)).key).toBe(first.key);
  expect(await (await store.get(first.key)).bytes()).toEqual(bytes);
  expect((await store.list({ group: 'old' })).files.map(({ key }) => key)).toEqual([first.key]);
  expect(store.stats()).toMatchObject({ stagedFiles: 0, mergedFiles: 1 });
  expect(store.stats().containerBytes).toBeLessThan(1_000);
  await store.close();

  forgetFileMap(directory);
  const again = await openStore();
  expect(await again.store.stat(first.key)).toMatchObject({ ...about, fileId });
  expect(await (await again.store.get(first.key)).bytes()).toEqual(bytes);

  await again.store.delete(first.key);
  await expect(again.store.get(first.key)).rejects.toMatchObject({ code: 'not_found' });
  await until(() =>
    client.info(fileId).then(
      () => false,
      ({ code }) => code === 'not_found',
    ),
  );
  await expect(again.register(fileId)).rejects.toMatchObject({ code: 'not_found' });
});

test('what can change, is a part of a store, or does not exist gets no key', async () => {
  const { client, openStore } = await setUp();
  const { store, register } = await openStore();
  const normal = await client.upload(randomBytes(100), { extension: 'jpg' });
  const appender = await client.uploadAppender(Buffer.from('begun'), { extension: 'log' });
  const slave = await client.uploadSlave(normal, '_small', randomBytes(10), { extension: 'jpg' });
  const { key } = await store.put('small');
  await store.flush();
  const slice = await store.settled(key);
  const trunk = formatFileId(parseSliceId(parseFileId(slice)!)!.trunk);
  for (const id of [appender, slave, slice, trunk, 'group1/M00/00/00/short.jpg', 'nonsense', key]) {
    await expect(register(id), id).rejects.toMatchObject({ code: 'invalid_id' });
  }
  const gone = normal.replace(/.{5}\.jpg$/, 'AAAAA.jpg');
  await expect(register(gone)).rejects.toMatchObject({ code: 'not_found' });
  await expect(register(normal, { name: 'x'.repeat(5000) })).rejects.toMatchObject({
    code: 'invalid_option',
  });
  expect(store.stats().mergedFiles).toBe(1);
});

test('a registered file expires, and is deleted in FastDFS', async () => {
  const later = movableTime();
  const { client, openStore } = await setUp();
  const { store, register } = await openStore();
  const fileId = await client.upload(randomBytes(100), { extension: 'jpg' });
  const { key, name } = await register(fileId, { expiresAt: new Date(Date.now() + HOUR_MS) });
  expect(name).toBe(fileId.slice(fileId.lastIndexOf('/') + 1));
  later(HOUR_MS);
  await expect(store.stat(key)).rejects.toMatchObject({ code: 'not_found' });
  await until(() =>
    client.info(fileId).then(
      () => false,
      ({ code }) => code === 'not_found',
    ),
  );
});

import { parseFileId, parseSliceId } from '@stevedore/protocol';
import { expect, onTestFinished, test } from 'vitest';
import { until } from '../../support/staging.js';
import { openStore } from '../../support/store.js';
import { temporaryFolder } from '../../support/temporary.js';

/** Where the bytes of a file are, from the upload to the storages. */

test('a staged file is in a segment, and nowhere else', async () => {
  const store = await openStore();
  const { key } = await store.put('hello', { name: 'a.txt', group: 'album' });
  const { file, disk, trunk, storages } = await store.locate(key);
  expect(file).toMatchObject({ key, name: 'a.txt', group: 'album', state: 'staged', size: 5 });
  expect(disk).toEqual({ at: 'container', segment: expect.any(Number) });
  expect([trunk, storages]).toEqual([undefined, []]);
  await expect(store.locate('AaIHUparJYjKn2WdrZ_Gyw')).rejects.toMatchObject({ code: 'not_found' });
  await expect(store.locate('no/id')).rejects.toMatchObject({ code: 'invalid_id' });
});

test('a merged file is in a trunk, which the storage has; its ids lead to the same place', async () => {
  const before = Date.now();
  const store = await openStore();
  const [receipt] = await store.putAll([{ body: 'hello' }, { body: 'world' }]);
  const { key } = receipt!;
  await store.flush();
  const id = await store.settled(key);
  await until(() => store.stats().unconfirmedTrunks === 0);
  const located = await store.locate(key);
  const { trunk, storages, disk, problem } = located;
  const slice = parseSliceId(parseFileId(id)!)!;
  expect(trunk).toMatchObject({ kind: 'trunk', files: 2, isConfirmed: true });
  expect(trunk!.offset).toBe(slice.offset);
  expect(parseFileId(trunk!.fileId)).toEqual(slice.trunk);
  // The storage counts whole seconds.
  expect(trunk!.storedAt.getTime()).toBeGreaterThanOrEqual(before - 1000);
  expect(trunk!.confirmedAt!.getTime()).toBeGreaterThanOrEqual(before);
  const [member] = await store.cluster();
  expect(storages).toEqual([{ address: member!.address, active: true, copy: 'present' }]);
  expect([disk?.at, problem]).toEqual(['container', undefined]);
  const byId = await store.locate(id);
  expect(byId).toEqual(located);
});

test('a large file is a file of its own, in the spool and then in FastDFS', async () => {
  const store = await openStore({ retain: 0 });
  const { key } = await store.put(Buffer.alloc(400 * 1024, 7), { name: 'large.bin' });
  const staged = await store.locate(key);
  expect(staged.disk).toEqual({ at: 'spool' });
  await store.flush();
  const { trunk, storages } = await store.locate(key);
  expect(trunk).toMatchObject({ kind: 'whole', offset: 0, fileId: await store.settled(key) });
  expect(storages.map(({ copy }) => copy)).toEqual(['present']);
  await until(async () => (await store.locate(key)).disk === undefined);
});

test('another store locates a slice by its id, from the id alone', async () => {
  const store = await openStore();
  const { key } = await store.put('hello', { name: 'a.txt' });
  await store.put('more');
  await store.flush();
  const id = await store.settled(key);
  const other = await openStore({ trackers: store.trackers, directory: temporaryFolder() });
  onTestFinished(() => other.close());
  const { file, disk, trunk, storages } = await other.locate(id);
  expect(file).toMatchObject({ fileId: id, size: 5, name: 'a.txt' });
  expect(disk).toBeUndefined();
  expect(trunk).toMatchObject({ kind: 'trunk', fileId: (await store.locate(key)).trunk!.fileId });
  expect(trunk!.isConfirmed).toBeUndefined();
  expect(storages.map(({ copy }) => copy)).toEqual(['present']);
});

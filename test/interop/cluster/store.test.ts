import { randomBytes } from 'node:crypto';
import { type FileStore, type OpenOptions, open } from '@stevedore/client';
import { expect, onTestFinished, test } from 'vitest';
import { testCluster } from '../../support/interop/cluster/cluster.js';
import {
  Carriers,
  carrierOf,
  ROUND_OPTIONS,
  type RoundFile,
  roundFiles,
} from '../../support/interop/cluster/round.js';
import { temporaryFolder } from '../../support/temporary.js';

/** Staged, merged, read back and deleted: the SDK over the cluster. */

const cluster = testCluster();

async function openStore(directory: string, options: OpenOptions = {}): Promise<FileStore> {
  const { trackers } = cluster;
  const store = await open({ idMaxAge: 0, trackers, directory, ...ROUND_OPTIONS, ...options });
  onTestFinished(() => store.close());
  return store;
}

async function put(store: FileStore, file: RoundFile): Promise<void> {
  const { name, group, bytes } = file;
  const receipt = await store.put(bytes, { name, ...(group === undefined ? {} : { group }) });
  expect(receipt.size).toBe(bytes.length);
  file.key = receipt.key;
}

async function expectFile(store: FileStore, id: string, { bytes }: RoundFile): Promise<void> {
  const file = await store.get(id);
  expect(file.size).toBe(bytes.length);
  expect((await file.bytes()).equals(bytes), id).toBe(true);
  if (bytes.length < 10) return;
  const part = await file.bytes({ range: { start: 5, end: bytes.length - 2 } });
  expect(part.equals(bytes.subarray(5, -1)), id).toBe(true);
}

test('files are staged, merged, read from the cluster and deleted', async () => {
  const carriers = new Carriers(cluster);
  const directory = temporaryFolder();
  const files = roundFiles(200);
  const total = files.reduce((sum, { bytes }) => sum + bytes.length, 0);
  const first = await openStore(directory);
  for (const file of files) {
    await put(first, file);
    await expectFile(first, file.key, file);
  }
  await first.flush();
  for (const file of files) {
    file.fileId = await first.settled(file.key);
    carriers.add(file.fileId);
  }
  // Packed: far fewer files of the cluster than files.
  expect(carriers.size).toBeLessThan(files.length / 8);
  expect(first.stats()).toMatchObject({ stagedFiles: 0, mergedFiles: files.length });
  for (const file of files) await expectFile(first, file.key, file);

  // A store that has never seen these files has nothing but the cluster to read from.
  const stranger = await openStore(temporaryFolder());
  for (const file of files) await expectFile(stranger, file.fileId, file);
  await stranger.close();

  await first.close();
  const second = await openStore(directory);
  // What comes after begins a new segment; the one with merged files alone is dropped.
  const late = { ...files[0]!, group: undefined };
  await put(second, late);
  await second.flush();
  late.fileId = await second.settled(late.key);
  carriers.add(late.fileId);
  files.push(late);
  while (second.stats().containerBytes > total / 2) {
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  for (const file of files) {
    await expectFile(second, file.key, file);
    await expectFile(second, file.fileId, file);
  }
  for (const file of files) {
    await second.delete(file.key);
    await expect(second.get(file.key)).rejects.toMatchObject({ code: 'not_found' });
    await expect(second.get(file.fileId)).rejects.toMatchObject({ code: 'not_found' });
  }
  await carriers.gone();
});

test('one small file has a trunk of its own when nothing else waits', async () => {
  const store = await openStore(temporaryFolder());
  const merged: string[] = [];
  store.on('merged', ({ fileId }) => merged.push(fileId));
  const bytes = randomBytes(5_000);
  const { key } = await store.put(bytes, { name: 'alone.jpg' });
  await store.flush();
  const fileId = await store.settled(key);
  cluster.owned(carrierOf(fileId));
  expect(merged).toEqual([fileId]);
  expect((await (await store.get(key)).bytes()).equals(bytes)).toBe(true);
  const stranger = await openStore(temporaryFolder());
  expect((await (await stranger.get(fileId)).bytes()).equals(bytes)).toBe(true);
  await store.delete(key);
  await cluster.gone(carrierOf(fileId));
});

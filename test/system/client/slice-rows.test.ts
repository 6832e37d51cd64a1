import { readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { openDatabase } from '@stevedore/disk/sqlite';
import { FastdfsClient } from '@stevedore/fastdfs';
import { expect, onTestFinished, test } from 'vitest';
import { Random } from '../../support/random.js';
import { groupOf } from '../../support/storage/group.js';
import { until } from '../../support/storage/support.js';
import { emptied, openStore } from '../../support/store.js';
import { temporaryFolder } from '../../support/temporary.js';

/** Files of one trunk that are read often, through a store that has none of their bytes. */

const KIB = 1024;
const NOTHING_LOCAL = { retain: 0, cacheSize: 0, scrubRate: 0, mergeMaxAge: '1h' } as const;

/** Merges ten files into one trunk; gives their keys. */
async function merged(directory: string, options: Parameters<typeof openStore>[0]) {
  const random = new Random(7);
  const own = { directory, ...NOTHING_LOCAL, ...options };
  const filling = await openStore(own);
  const files: { key: string; bytes: Buffer }[] = [];
  for (let n = 0; n < 10; n += 1) {
    const bytes = Buffer.from(Array.from({ length: 20 * KIB }, () => random.below(256)));
    files.push({ key: (await filling.put(bytes, { name: `${n}.bin` })).key, bytes });
  }
  await filling.flush();
  await filling.close();
  const store = await emptied(await openStore(own));
  const read = async ({ key }: { key: string }) => (await store.get(key)).bytes();
  return { store, files, read };
}

test('the embedded storage serves them from rows, whatever becomes of the trunk', async () => {
  const directory = temporaryFolder();
  const { store, files, read } = await merged(directory, { metadataTier: true });
  const [hot, cold] = [files[3]!, files[4]!];
  for (let n = 0; n < 4; n += 1) expect(await read(hot)).toEqual(hot.bytes);
  expect(await read(cold)).toEqual(cold.bytes);
  await store.close();

  const data = join(directory, 'node', 'data');
  const db = openDatabase(join(data, '.stevedore-files.sqlite'), { readonly: true });
  expect(db.prepare('SELECT size FROM slices').all()).toEqual([{ size: hot.bytes.length }]);
  db.close();
  for (const path of readdirSync(data, { recursive: true, encoding: 'utf8' })) {
    if (path.endsWith('.merged')) writeFileSync(join(data, path), Buffer.alloc(300 * KIB));
  }
  const again = await openStore({ directory, ...NOTHING_LOCAL, metadataTier: true });
  again.on('error', () => {});
  expect(await (await again.get(hot.key)).bytes()).toEqual(hot.bytes);
  await expect((await again.get(cold.key)).bytes()).rejects.toMatchObject({ code: 'corrupt' });
});

test('every storage of the group serves a trunk that is read often', async () => {
  const group = await groupOf(2, { tiers: { enabled: true, bytesPerSecond: 100e6 } });
  const trackers = [`${group.tracker.host}:${group.tracker.port}`];
  const { store, files, read } = await merged(temporaryFolder(), { trackers });
  const client = new FastdfsClient({ trackers });
  onTestFinished(() => client.close());
  const id = await store.settled(files[0]!.key);
  // Trackers believe that a member has a file once it has what its source took later.
  await until(async () => {
    await client.upload(Buffer.from('later'));
    return (await client.locateAll(id)).length === group.members.length;
  });
  const downloads = () =>
    group.members.map(({ storage }) => storage!.statistics().operations.download?.success ?? 0);
  const before = downloads();
  for (let n = 0; n < 20; n += 1) expect(await read(files[0]!)).toEqual(files[0]!.bytes);
  for (const [at, count] of downloads().entries()) expect(count - before[at]!).toBeGreaterThan(5);
  for (const { storage } of group.members) {
    expect(storage!.migrationStatus()!.slices.files).toBe(1);
  }
});

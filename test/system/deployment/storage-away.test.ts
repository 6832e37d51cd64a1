import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { open } from '@stevedore/client';
import { type Storage, startStorage } from '@stevedore/node';
import { startTracker, type Tracker } from '@stevedore/tracker';
import { expect, onTestFinished, test } from 'vitest';
import { quiet } from '../../support/quiet.js';
import { until } from '../../support/staging.js';
import { temporaryFolder } from '../../support/temporary.js';

/**
 * A tracker says "no such" of a file's group while no storage has joined it, as it
 * does for a moment after a restart. That must not pass for "no such file".
 */
test('while no storage is known, a merged file is unavailable, not lost, and its trunk is not forgotten', async () => {
  const folder = temporaryFolder();
  const node: { tracker?: Tracker; storage?: Storage } = {};
  onTestFinished(async () => {
    await node.storage?.close();
    await node.tracker?.close();
  });
  node.tracker = await startTracker({ port: 0 });
  const { port } = node.tracker;
  const trackers = [`127.0.0.1:${port}`];
  const storageOptions = { port: 0, trackers, storePaths: [join(folder, 'store')] };
  node.storage = await startStorage(storageOptions);
  await node.storage.active();
  const store = await open({
    idMaxAge: 0,
    directory: join(folder, 'staging'),
    trackers,
    retain: 0,
    cacheSize: 0,
    trunkSize: '1MiB',
    smallFileLimit: '256KiB',
  });
  onTestFinished(() => store.close());
  store.on('error', () => {});
  const kept = await store.put('kept', { name: 'a.txt' });
  const gone = await store.put('gone', { name: 'b.txt' });
  const large = await store.put(Buffer.alloc(600_000, 'x'), { name: 'c.txt' });
  await store.flush();
  const goneId = await store.settled(gone.key);
  const largeId = await store.settled(large.key);
  // Its copy on this disk goes once the storage is seen to have it.
  await until(() => readdirSync(join(folder, 'staging', 'spool')).length === 0);

  await node.storage.close();
  await node.tracker.close();
  node.tracker = await startTracker({ port });

  const local = await (await store.get(kept.key)).bytes().catch((error) => error.code);
  // The newest segment may still be on this disk.
  expect([Buffer.from('kept'), 'storage_unavailable']).toContainEqual(local);
  await expect((await store.get(large.key)).bytes()).rejects.toMatchObject({
    code: 'storage_unavailable',
    retryable: true,
  });
  await store.delete(gone.key);
  await store.delete(large.key);
  await store.delete(kept.key);
  await quiet();

  node.storage = await startStorage({ ...storageOptions, port: node.storage.port });
  await node.storage.active();
  for (const id of [goneId, largeId]) {
    await expect(store.get(id)).rejects.toMatchObject({ code: 'not_found' });
  }
  // What is dead goes from the storage once it is back.
  const next = await store.put('next');
  await store.flush();
  await store.settled(next.key);
  await until(() => store.stats().trunks === 1);
});

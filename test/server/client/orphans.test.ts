import { randomBytes } from 'node:crypto';
import { open } from '@stevedore/client';
import { openForUpkeep } from '@stevedore/client/internal';
import { uploadFile } from '@stevedore/protocol';
import { expect, onTestFinished, test } from 'vitest';
import { temporaryFolder } from '../../support/temporary.js';
import { testCluster } from '../../support/test-cluster.js';

/** What a cluster has of a store and no record names, found by the lists of its storages. */

async function twice() {
  const cluster = await testCluster({ storages: 2 });
  const directory = temporaryFolder();
  const options = { trackers: cluster.trackers, directory };
  const store = await open(options);
  store.on('error', () => undefined);
  let losses = 1;
  for (const storage of cluster.storages) {
    storage.misbehave(uploadFile.code, ({ socket }, good) => {
      losses -= 1;
      if (losses >= 0) socket.resetAndDestroy();
      else socket.write(good);
    });
  }
  const bytes = randomBytes(5000);
  const { key } = await store.put(bytes);
  await store.flush();
  cluster.behave();
  const trunks = async () => (await cluster.names()).filter((name) => name.endsWith('.merged'));
  expect(await trunks()).toHaveLength(2);
  expect(store.stats().orphans.openPlans).toBe(1);
  await store.close();
  return { cluster, options, key, bytes, trunks };
}

test('a trunk whose reply was lost is told of by a check, and deleted by one that mends', async () => {
  const { options, key, bytes, trunks } = await twice();
  const upkeep = await openForUpkeep(options);
  const seen = await upkeep.fsck({ repair: false });
  expect(seen).toMatchObject({ orphanTrunks: 1, unlisted: [], problems: [{ code: 'orphan' }] });
  expect(await trunks()).toHaveLength(2);
  const mended = await upkeep.fsck({ repair: true });
  expect(mended).toMatchObject({ orphanTrunks: 0, orphans: [{ fate: 'deleted' }] });
  // Storages may list late what they took: the matter stays open for a while.
  expect(mended.openPlans).toBe(1);
  await upkeep.close();
  expect(await trunks()).toHaveLength(1);
  const store = await open({ idMaxAge: 0, ...options, retain: 0 });
  onTestFinished(() => store.close());
  expect((await (await store.get(key)).bytes()).equals(bytes)).toBe(true);
});

import { randomBytes } from 'node:crypto';
import { expect, test } from 'vitest';
import { failure } from '../../support/fastdfs.js';
import { testCluster } from '../../support/interop/cluster/cluster.js';

/** What the trackers tell about groups, storages and the places of files. */

const cluster = testCluster();
const ACTIVE = 7;

async function stored(): Promise<{ readonly id: string; readonly group: string }> {
  const id = cluster.owned(await cluster.client.upload(randomBytes(100)));
  return { id, group: cluster.client.describe(id).group };
}

test('groups are listed', async () => {
  const { client } = cluster;
  const { group } = await stored();
  const record = (await client.listGroups()).find(({ name }) => name === group)!;
  expect(record.storageCount).toBeGreaterThan(0);
  expect(record.writableCount).toBeGreaterThan(0);
  expect(record.totalMegabytes).toBeGreaterThan(0);
});

test('storages of a group are listed', async () => {
  const { client } = cluster;
  const { group } = await stored();
  const storages = await client.listStorages(group);
  const active = storages.filter(({ status }) => status === ACTIVE);
  expect(active.length).toBeGreaterThan(0);
  for (const storage of active) {
    expect(storage.storePathCount).toBeGreaterThan(0);
  }
});

test('a file is located on storages of its group', async () => {
  const { client } = cluster;
  const { id, group } = await stored();
  const storages = await client.listStorages(group);
  const known = storages.map(({ address, storagePort: port }) => ({ address, port }));
  const { address, port } = await client.locate(id);
  expect(known).toContainEqual({ address, port });
  const all = await client.locateAll(id);
  expect(all.length).toBeGreaterThan(0);
  for (const { address, port } of all) expect(known).toContainEqual({ address, port });
});

test('what is not there is not found', async () => {
  const { client } = cluster;
  const { id, group } = await stored();
  const elsewhere = id.replace(group, 'noSuchGroup');
  expect(await failure(client.listStorages('noSuchGroup'))).toMatchObject({
    code: 'not_found',
    status: 2,
  });
  for (const call of [() => client.locate(elsewhere), () => client.locateAll(elsewhere)]) {
    expect(await failure(call())).toMatchObject({ code: 'unknown_group', status: 2 });
  }
});

import { queryStore, queryStoreInGroup, uploadFile } from '@stevedore/protocol';
import { expect, it } from 'vitest';
import { refuse, reset, silence, type TestCluster } from '../../support/cluster/index.js';
import { failure, until } from '../../support/fastdfs.js';
import { clusterSetup } from '../../support/test-cluster.js';

/** Uploads that run at the same time share a tracker's answer, within limits. */

const BODY = Buffer.from('body');

it('asks the tracker once for uploads that begin together, and again for the next', async () => {
  const { cluster, client } = await clusterSetup();
  await Promise.all(Array.from({ length: 16 }, () => client.upload(BODY)));
  expect(cluster.tracker.count(queryStore.code)).toBe(1);
  await client.upload(BODY);
  expect(cluster.tracker.count(queryStore.code)).toBe(2);
  expect(await cluster.names()).toHaveLength(17);
});

it('asks by group where uploads name one', async () => {
  const { cluster, client } = await clusterSetup();
  const group = { group: 'group1' };
  await Promise.all([
    client.upload(BODY),
    client.upload(BODY, group),
    client.upload(BODY, group),
    client.upload(BODY),
  ]);
  expect(cluster.tracker.count(queryStore.code)).toBe(1);
  expect(cluster.tracker.count(queryStoreInGroup.code)).toBe(1);
  const unknown = [1, 2].map(() => failure(client.upload(BODY, { group: 'other' })));
  expect((await Promise.all(unknown)).map(({ code }) => code)).toEqual(
    Array(2).fill('unknown_group'),
  );
});

it('an upload that is aborted while it asks for others does not end theirs', async () => {
  const { cluster, client } = await clusterSetup();
  cluster.tracker.misbehave(queryStore.code, silence);
  const controller = new AbortController();
  const asker = failure(client.upload(BODY, { signal: controller.signal }));
  const others = [client.upload(BODY), client.upload(BODY)];
  await until(() => cluster.tracker.count(queryStore.code) === 1);
  cluster.behave();
  controller.abort();
  expect(await asker).toMatchObject({ code: 'aborted' });
  expect(new Set(await Promise.all(others)).size).toBe(2);
});

it('an upload that is aborted while another asks ends at once, and only that', async () => {
  const { cluster, client } = await clusterSetup();
  cluster.tracker.misbehave(queryStore.code, silence);
  const asking = failure(client.upload(BODY));
  const controller = new AbortController();
  const waiting = failure(client.upload(BODY, { signal: controller.signal }));
  const hasty = failure(client.upload(BODY, { deadlineMs: 20 }));
  await until(() => cluster.tracker.count(queryStore.code) === 1);
  controller.abort();
  expect(await waiting).toMatchObject({ code: 'aborted' });
  expect(await hasty).toMatchObject({ code: 'timeout' });
  await client.close();
  expect(await asking).toMatchObject({ code: 'closed' });
});

it('when no tracker answers, each upload says so', async () => {
  const { cluster, client } = await clusterSetup();
  cluster.tracker.misbehave(queryStore.code, reset);
  const errors = await Promise.all([1, 2, 3].map(() => failure(client.upload(BODY))));
  expect(errors.map(({ code }) => code)).toEqual(Array(3).fill('no_tracker'));
});

/** Holds uploads back at the storage; answers those held with their good reply when called. */
function heldUploads(cluster: TestCluster): { readonly count: number; release: () => void } {
  const held: (() => void)[] = [];
  for (const storage of cluster.storages) {
    storage.misbehave(uploadFile.code, ({ socket }, good) => {
      held.push(() => void socket.write(good));
    });
  }
  return {
    get count() {
      return held.length;
    },
    release: () => {
      for (const answer of held.splice(0)) answer();
    },
  };
}

it('an upload that begins while another is under way takes its answer, a number of times', async () => {
  const { cluster, client } = await clusterSetup({ uploadsPerStoreAnswer: 3 });
  const held = heldUploads(cluster);
  const questions = () => cluster.tracker.count(queryStore.code);
  const uploads = [];
  for (const [number, asked] of [1, 1, 1, 2, 2, 2, 3].entries()) {
    uploads.push(client.upload(BODY));
    await until(() => held.count === number + 1);
    expect(questions()).toBe(asked);
  }
  held.release();
  expect(new Set(await Promise.all(uploads)).size).toBe(7);
});

it('an upload that fails ends the use of its answer', async () => {
  const { cluster, client } = await clusterSetup({ busyRetries: 0 });
  const questions = () => cluster.tracker.count(queryStore.code);
  const held = heldUploads(cluster);
  const first = client.upload(BODY);
  await until(() => held.count === 1);
  for (const storage of cluster.storages) storage.misbehave(uploadFile.code, refuse(28));
  expect(await failure(client.upload(BODY))).toMatchObject({ code: 'no_space' });
  expect(questions()).toBe(1);
  for (const storage of cluster.storages) storage.behave();
  await client.upload(BODY);
  expect(questions()).toBe(2);
  held.release();
  await first;
});

it('an answer whose storage is gone is not taken again', async () => {
  const { cluster, client } = await clusterSetup({}, { storages: 2 });
  const questions = () => cluster.tracker.count(queryStore.code);
  const held = heldUploads(cluster);
  const first = client.upload(BODY);
  await until(() => held.count === 1);
  const [used, other] = cluster.storages.toSorted(
    (a, b) => b.count(uploadFile.code) - a.count(uploadFile.code),
  );
  other!.behave();
  used!.misbehave(uploadFile.code, reset);
  await client.upload(BODY);
  const asked = questions();
  await client.upload(BODY);
  expect(questions()).toBeGreaterThan(asked);
  held.release();
  await first;
});

it('with one upload for an answer, each asks', async () => {
  const { cluster, client } = await clusterSetup({ uploadsPerStoreAnswer: 1 });
  await Promise.all(Array.from({ length: 5 }, () => client.upload(BODY)));
  expect(cluster.tracker.count(queryStore.code)).toBe(5);
});

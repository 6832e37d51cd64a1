import { CommandCode, reset, stall } from '@stevedore/fastdfs/testing';
import { expect, it } from 'vitest';
import { failure, until } from '../support/fastdfs.js';
import { memorySetup } from '../support/fastdfs-memory.js';

/** Uploads that begin at the same time share one question to the tracker. */

const BODY = Buffer.from('body');

it('asks the tracker once for uploads that begin together, and again for the next', async () => {
  const { cluster, client } = await memorySetup();
  await Promise.all(Array.from({ length: 16 }, () => client.upload(BODY)));
  expect(cluster.tracker.count(CommandCode.queryStoreWithoutGroupOne)).toBe(1);
  await client.upload(BODY);
  expect(cluster.tracker.count(CommandCode.queryStoreWithoutGroupOne)).toBe(2);
  expect(cluster.files.size).toBe(17);
});

it('asks by group where uploads name one', async () => {
  const { cluster, client } = await memorySetup();
  const group = { group: 'group1' };
  await Promise.all([
    client.upload(BODY),
    client.upload(BODY, group),
    client.upload(BODY, group),
    client.upload(BODY),
  ]);
  expect(cluster.tracker.count(CommandCode.queryStoreWithoutGroupOne)).toBe(1);
  expect(cluster.tracker.count(CommandCode.queryStoreWithGroupOne)).toBe(1);
  const unknown = [1, 2].map(() => failure(client.upload(BODY, { group: 'other' })));
  expect((await Promise.all(unknown)).map(({ code }) => code)).toEqual(
    Array(2).fill('unknown_group'),
  );
});

it('an upload that is aborted while it asks for others does not end theirs', async () => {
  const { cluster, client } = await memorySetup();
  cluster.tracker.misbehave(CommandCode.queryStoreWithoutGroupOne, stall);
  const controller = new AbortController();
  const asker = failure(client.upload(BODY, { signal: controller.signal }));
  const others = [client.upload(BODY), client.upload(BODY)];
  await until(() => cluster.tracker.count(CommandCode.queryStoreWithoutGroupOne) === 1);
  cluster.behave();
  controller.abort();
  expect(await asker).toMatchObject({ code: 'aborted' });
  expect(new Set(await Promise.all(others)).size).toBe(2);
});

it('an upload that is aborted while another asks ends at once, and only that', async () => {
  const { cluster, client } = await memorySetup();
  cluster.tracker.misbehave(CommandCode.queryStoreWithoutGroupOne, stall);
  const asking = failure(client.upload(BODY, { deadlineMs: 5_000 }));
  const controller = new AbortController();
  const waiting = failure(client.upload(BODY, { signal: controller.signal }));
  const hasty = failure(client.upload(BODY, { deadlineMs: 20 }));
  await until(() => cluster.tracker.count(CommandCode.queryStoreWithoutGroupOne) === 1);
  controller.abort();
  expect(await waiting).toMatchObject({ code: 'aborted' });
  expect(await hasty).toMatchObject({ code: 'timeout' });
  await client.close();
  expect(await asking).toMatchObject({ code: 'closed' });
});

it('when no tracker answers, each upload says so', async () => {
  const { cluster, client } = await memorySetup();
  cluster.tracker.misbehave(CommandCode.queryStoreWithoutGroupOne, reset);
  const errors = await Promise.all([1, 2, 3].map(() => failure(client.upload(BODY))));
  expect(errors.map(({ code }) => code)).toEqual(Array(3).fill('no_tracker'));
});

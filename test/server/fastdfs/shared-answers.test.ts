import { downloadFile, queryFetch } from '@stevedore/protocol';
import { expect, it, onTestFinished, vi } from 'vitest';
import { Deadline } from '../../../packages/fastdfs/dist/deadline.js';
import { SharedAnswers } from '../../../packages/fastdfs/dist/operations/shared-answers.js';
import { refuse } from '../../support/cluster/index.js';
import { failure } from '../../support/fastdfs.js';
import { clusterSetup } from '../../support/test-cluster.js';

/** Reads that run at the same time share a tracker's answer, where it is good for all of them. */

it('asks once for reads of files of one storage that begin together, and again for the next', async () => {
  const { cluster, client } = await clusterSetup();
  const bodies = Array.from({ length: 16 }, (_, number) => Buffer.from(`body ${number}`));
  const ids: string[] = [];
  for (const body of bodies) ids.push(await client.upload(body));
  const newest = ids.at(-1)!;
  const reads = [newest, ...ids.slice(0, -1)].map((id) => client.downloadBytes(id));
  const read = (await Promise.all(reads)).map(String);
  expect(read).toEqual([bodies.at(-1), ...bodies.slice(0, -1)].map(String));
  expect(cluster.tracker.count(queryFetch.code)).toBe(1);
  expect(String(await client.downloadBytes(newest))).toBe('body 15');
  expect(cluster.tracker.count(queryFetch.code)).toBe(2);
});

it('asks each time for what may be changed, and with one read for an answer', async () => {
  const { cluster, client } = await clusterSetup();
  const id = await client.uploadAppender(Buffer.from('body'));
  await Promise.all(Array.from({ length: 4 }, () => client.downloadBytes(id)));
  expect(cluster.tracker.count(queryFetch.code)).toBe(4);
  const { cluster: other, client: asking } = await clusterSetup({ readsPerFetchAnswer: 1 });
  const plain = await asking.upload(Buffer.from('body'));
  await Promise.all(Array.from({ length: 4 }, () => asking.downloadBytes(plain)));
  expect(other.tracker.count(queryFetch.code)).toBe(4);
});

it('reads that share an answer whose storage fails are read elsewhere', async () => {
  const { cluster, client } = await clusterSetup({ busyRetries: 0 }, { storages: 2 });
  const id = await client.upload(Buffer.from('body'));
  const { source } = client.describe(id);
  const copy = cluster.storages.find(({ address }) => !address.startsWith(`${source}:`));
  // The tracker names the other one next.
  await client.downloadBytes(id);
  copy!.misbehave(downloadFile.code, refuse(2));
  const read = await Promise.all(Array.from({ length: 8 }, () => client.downloadBytes(id)));
  expect(read.map(String)).toEqual(Array(8).fill('body'));
  expect(await failure(client.downloadBytes(id.replace(/.$/, 'x')))).toMatchObject({
    code: 'not_found',
  });
});

it('an answer is good for calls of its time and earlier ones, for a second', async () => {
  let asked = 0;
  const answers = new SharedAnswers<number>(16);
  const clock = vi.spyOn(performance, 'now').mockReturnValue(0);
  onTestFinished(() => clock.mockRestore());
  const ask = async () => {
    asked += 1;
    return asked;
  };
  const deadline = new Deadline('test', {});
  const lease = (time: number) => answers.lease({ name: 'a', time, ask }, deadline);
  const first = await lease(5);
  expect([(await lease(5)).answer, (await lease(4)).answer]).toEqual([1, 1]);
  expect((await lease(6)).answer).toBe(2);
  expect((await lease(5)).answer).toBe(2);
  clock.mockReturnValue(1000);
  expect((await lease(5)).answer).toBe(3);
  const [older, newer] = await Promise.all([lease(7), lease(8)]);
  expect([older.answer, newer.answer]).toEqual([4, 5]);
  answers.done(first, false);
  expect((await lease(8)).answer).toBe(5);
  answers.done(newer, false);
  expect((await lease(8)).answer).toBe(6);
  deadline.settle();
});

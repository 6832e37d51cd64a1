import { startStorage } from '@stevedore/node';
import {
  decodeFields,
  downloadFile,
  fetchStorageIds,
  type JoinRequest,
  join,
  listAllGroups,
  listStorage,
  queryFetch,
  queryFetchAll,
  queryFileInfo,
  queryStore,
  queryStoreAll,
  queryUpdate,
  reportDiskUsage,
  syncNotify,
} from '@stevedore/protocol';
import { startTracker, type TrackerOptions } from '@stevedore/tracker';
import { expect, it, onTestFinished } from 'vitest';
import { idOf, RawClient, trackerOf, until } from '../../support/storage/support.js';
import { temporaryFolder } from '../../support/temporary.js';

/** Several groups, several storages in a group, several store paths. */

/** A storage of a group with so much room on each of its paths, MiB. */
async function member(
  tracker: { connect(): Promise<RawClient> },
  group: string,
  port: number,
  free: readonly number[],
) {
  const client = await tracker.connect();
  const request: JoinRequest = {
    group,
    port,
    storePathCount: free.length,
    subdirectoriesPerPath: 256,
    uploadPriority: 10,
    joinedAtSeconds: 1,
    startedAtSeconds: 1,
    version: '6.16.1',
    initial: true,
    status: 0,
    storageId: '',
    trackerAddress: '127.0.0.1',
    trackers: ['127.0.0.1:22122'],
  };
  expect((await client.ask(join, request)).status).toBe(0);
  await client.ask(syncNotify, { sourceId: '', untilSeconds: 0 });
  const usage = free.map((freeMegabytes) => ({ totalMegabytes: 100_000, freeMegabytes }));
  expect((await client.ask(reportDiskUsage, usage)).status).toBe(0);
  return client;
}

async function groupsOf(options: TrackerOptions): Promise<string[]> {
  const tracker = await trackerOf(options);
  await member(tracker, 'groupA', 23_001, [5000, 9000]);
  const client = await member(tracker, 'groupB', 23_002, [50_000]);
  const groups: string[] = [];
  for (let turn = 0; turn < 4; turn++) {
    const { status, answer } = await client.ask(queryStore, undefined);
    groups.push(answer ? `${answer.group}/${answer.storePathIndex}` : String(status));
  }
  return groups;
}

it('an upload goes to the group that the rule says', async () => {
  const all = ['groupA/0', 'groupB/0', 'groupA/1', 'groupB/0'];
  expect(await groupsOf({})).toEqual(all);
  const fixed = await groupsOf({ storeLookup: 'group', storeGroup: 'groupA' });
  expect(fixed).toEqual(['groupA/0', 'groupA/1', 'groupA/0', 'groupA/1']);
  const free = await groupsOf({ storeLookup: 'most-free' });
  expect(free).toEqual(['groupB/0', 'groupB/0', 'groupB/0', 'groupB/0']);
  expect(await groupsOf({ storeLookup: 'group', storeGroup: 'none' })).toEqual(
    Array.from({ length: 4 }, () => '2'),
  );
  await expect(trackerOf({ storeLookup: 'group' })).rejects.toMatchObject({
    code: 'invalid_option',
  });
});

it('two storages of a group are told apart by ids, and readers are sent to the one that has the file', async () => {
  const storageIds = ['100001 group1 127.0.17.31', '100002 group1 127.0.17.32'];
  const host = '127.0.17.30';
  const options = { host, port: 0, storageIds, addressWidth: 'wide' } as const;
  const tracker = await startTracker({ ...options, reservedSpaceMegabytes: 1 });
  onTestFinished(() => tracker.close());
  const storages = await Promise.all(
    ['127.0.17.31', '127.0.17.32'].map(async (address) => {
      const storage = await startStorage({
        host: address,
        port: 0,
        storePaths: [temporaryFolder(), temporaryFolder()],
        trackers: [`${host}:${tracker.port}`],
        beatIntervalMs: 20,
      });
      onTestFinished(() => storage.close());
      await storage.active();
      return storage;
    }),
  );
  const client = await RawClient.open(tracker.port, host);
  await until(
    async () => (await client.ask(queryStoreAll, undefined)).answer?.servers.length === 2,
  );
  expect((await client.ask(fetchStorageIds, { start: 0, allowEmpty: true })).answer).toEqual({
    total: 2,
    lines: storageIds,
  });
  for (const [index, storage] of storages.entries()) {
    const direct = await RawClient.open(storage.port, storage.host);
    const content = Buffer.from(`on storage ${index}`);
    const file = await direct.upload(content, 'txt', index);
    expect(file.name.slice(0, 3)).toBe(`M0${index}`);
    expect(decodeFields(idOf(file).base).source).toBe(storageIds[index]!.slice(0, 6));
    const expected = { group: 'group1', address: storage.host, port: storage.port };
    for (let turn = 0; turn < 3; turn++) {
      expect((await client.ask(queryFetch, file)).answer).toEqual(expected);
      expect((await client.ask(queryUpdate, file)).answer).toEqual(expected);
    }
    expect((await client.ask(queryFetchAll, file)).answer!.servers).toHaveLength(1);
    expect((await direct.ask(queryFileInfo, file)).answer!.sourceAddress).toBe(storage.host);
    await direct.ask(downloadFile, { ...file, offset: 0, length: 0 });
  }
  // What the storages have done comes with their beats.
  await until(async () => {
    const { answer } = await client.ask(listStorage, { group: 'group1', id: '100002' });
    return answer![0]!.statistics.operations.downloadBytes.success === 12;
  });
  const { answer } = await client.ask(listStorage, { group: 'group1', id: '' });
  expect(answer!.map(({ id, address }) => `${id} ${address}`)).toEqual(
    storageIds.map((line) => line.replace(' group1', '')),
  );
  expect(answer!.map(({ statistics }) => statistics.operations.upload.success)).toEqual([1, 1]);
  const groups = (await client.ask(listAllGroups, undefined)).answer!;
  expect(groups).toMatchObject([
    { name: 'group1', storageCount: 2, writableCount: 2, storePathCount: 2, storagePort: -1 },
  ]);
});

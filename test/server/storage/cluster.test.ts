import { startStorage } from '@stevedore/node';
import {
  decodeFields,
  downloadFile,
  fetchStorageIds,
  listAllGroups,
  listStorage,
  queryFetch,
  queryFetchAll,
  queryFileInfo,
  queryStoreAll,
  queryUpdate,
} from '@stevedore/protocol';
import { startTracker } from '@stevedore/tracker';
import { expect, it, onTestFinished } from 'vitest';
import { idOf, RawClient, until } from '../../support/storage/support.js';
import { temporaryFolder } from '../../support/temporary.js';

/** Several storages in a group, several store paths. */

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

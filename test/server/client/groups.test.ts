import { randomBytes } from 'node:crypto';
import type { FileStore, OpenOptions } from '@stevedore/client';
import { FastdfsClient } from '@stevedore/fastdfs';
import { parseFileId, parseSliceId } from '@stevedore/protocol';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { Random } from '../../support/random.js';
import { emptied, openStore as openSmall } from '../../support/store.js';
import { temporaryFolder } from '../../support/temporary.js';
import { testCluster } from '../../support/test-cluster.js';

/** Affinity groups on their way: into the trunk side by side, out of it together. */

interface TestFile {
  readonly key: string;
  readonly group: string;
  readonly bytes: Buffer;
}

/** Nothing stays on this machine: every read goes to FastDFS. */
const openStore = (options: OpenOptions): Promise<FileStore> =>
  openSmall({
    ...{ trunkSize: '4MiB', smallFileLimit: '1MiB', mergeMaxAge: '1h', retain: 0 },
    ...options,
  });

/** Of a stock cluster: it knows trunks as files and nothing of slices. */
const stockTrackers = async (): Promise<readonly string[]> => (await testCluster()).trackers;

/** A store with the files of three groups, which came in mixed; nothing of them is local. */
async function filledStore(
  options: OpenOptions = {},
  members = 6,
): Promise<{ readonly store: FileStore; readonly files: readonly TestFile[] }> {
  const own = {
    directory: temporaryFolder(),
    trackers: options.trackers ?? (await stockTrackers()),
    ...options,
  };
  const random = new Random(members);
  const names = ['a', 'b', 'c'].flatMap((group) => Array<string>(members).fill(group));
  const files: TestFile[] = [];
  const filling = await openStore(own);
  while (names.length > 0) {
    const [group] = names.splice(random.below(names.length), 1);
    const bytes = randomBytes(1000 + random.below(20_000));
    const { key } = await filling.put(bytes, { group: group!, name: `${files.length}.bin` });
    files.push({ key, group: group!, bytes });
  }
  await filling.flush();
  await filling.close();
  return { store: await emptied(await openStore(own)), files };
}

/** Downloads from FastDFS from now on. */
function countDownloads(): { offset: number; length: number }[] {
  const downloads: { offset: number; length: number }[] = [];
  const original = FastdfsClient.prototype.downloadBytes;
  const spy = vi.spyOn(FastdfsClient.prototype, 'downloadBytes').mockImplementation(function (
    this: FastdfsClient,
    id,
    options,
  ) {
    downloads.push({ offset: options?.offset ?? 0, length: options?.length ?? 0 });
    return original.call(this, id, options);
  });
  onTestFinished(() => spy.mockRestore());
  return downloads;
}

async function isSound(store: FileStore, handle: string, { bytes }: TestFile): Promise<boolean> {
  return (await (await store.get(handle)).bytes()).equals(bytes);
}

describe('files of one affinity group', () => {
  test('lie side by side in their trunk, in the order they came', async () => {
    const { store, files } = await filledStore();
    const places = await Promise.all(
      files.map(async ({ key, group }, index) => {
        const { offset } = parseSliceId(parseFileId(await store.settled(key))!)!;
        return { offset, group, index };
      }),
    );
    places.sort((a, b) => a.offset - b.offset);
    const groups = places.map(({ group }) => group);
    expect(groups.filter((group, at) => group !== groups[at - 1]).length).toBe(3);
    for (const name of ['a', 'b', 'c']) {
      const arrivals = places.filter(({ group }) => group === name).map(({ index }) => index);
      expect(arrivals).toEqual([...arrivals].sort((a, b) => a - b));
    }
  });

  test('come in one ranged download from a stock cluster, by key and by slice id', async () => {
    const trackers = await stockTrackers();
    const { store, files } = await filledStore({ trackers });
    const downloads = countDownloads();
    const group = files.filter((each) => each.group === 'b');
    expect(await isSound(store, group[2]!.key, group[2]!)).toBe(true);
    expect(downloads.length).toBe(1);
    for (const file of group) expect(await isSound(store, file.key, file)).toBe(true);
    expect(downloads.length).toBe(1);
    expect(store.stats().cache.readAhead.usedBytes).toBe(store.stats().cache.readAhead.readBytes);

    const other = await openStore({ trackers });
    const id = await store.settled(group[3]!.key);
    expect(await isSound(other, id, group[3]!)).toBe(true);
    // Two for the trunk's directory, one for the group.
    expect(downloads.length).toBe(4);
    for (const file of group) {
      expect(await isSound(other, await store.settled(file.key), file)).toBe(true);
    }
    expect(downloads.length).toBe(4);
  });

  test('share the download when they are asked for at the same time', async () => {
    const { store, files } = await filledStore();
    const downloads = countDownloads();
    const sound = await Promise.all(files.map((file) => isSound(store, file.key, file)));
    expect(sound).not.toContain(false);
    expect(downloads.length).toBe(3);
  });

  test('are downloaded alone when that is wanted, or when they have no room in the cache', async () => {
    const trackers = await stockTrackers();
    for (const options of [{ readAhead: 0 }, { cacheSize: 0 }]) {
      const { store, files } = await filledStore({ trackers, ...options });
      const downloads = countDownloads();
      for (const file of files) expect(await isSound(store, file.key, file)).toBe(true);
      expect(downloads.map(({ length }) => length)).toEqual(files.map(({ bytes }) => bytes.length));
      vi.restoreAllMocks();
    }
  });

  test('are taken in parts of the bound when they are many', async () => {
    const { store, files } = await filledStore({ readAhead: '64KiB' }, 20);
    const downloads = countDownloads();
    for (const file of files) expect(await isSound(store, file.key, file)).toBe(true);
    expect(downloads.length).toBeLessThan(files.length / 2);
    for (const { length } of downloads) expect(length).toBeLessThanOrEqual(64 * 1024);
  });

  test('that were deleted do not come back with their neighbours', async () => {
    const { store, files } = await filledStore();
    const [first, second, ...rest] = files.filter((each) => each.group === 'a');
    const id = await store.settled(second!.key);
    await store.delete(second!.key);
    expect(await isSound(store, first!.key, first!)).toBe(true);
    for (const handle of [second!.key, id]) {
      await expect(store.get(handle)).rejects.toMatchObject({ code: 'not_found' });
    }
    for (const file of rest) expect(await isSound(store, file.key, file)).toBe(true);
  });

  test('stop nobody but the one whose signal ends a read', async () => {
    const { store, files } = await filledStore();
    const file = files[0]!;
    const stored = await store.get(file.key);
    const controller = new AbortController();
    const left = stored.bytes({ signal: controller.signal });
    const stayed = stored.bytes();
    controller.abort();
    await expect(left).rejects.toMatchObject({ code: 'aborted' });
    expect((await stayed).equals(file.bytes)).toBe(true);
  });
});

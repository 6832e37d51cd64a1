import type { FileStore } from '@stevedore/client';
import { connect } from '@stevedore/client/connect';
import { FastdfsClient } from '@stevedore/fastdfs';
import { describe, expect, onTestFinished, test } from 'vitest';
import { SCOPES } from '../../../gateway/dist/access/api-keys.js';
import { keyFile, newKey } from '../../support/gateway/guarded.js';
import { until } from '../../support/staging.js';
import { type Opened, openGateway, openStore } from '../../support/store.js';
import { testCluster } from '../../support/test-cluster.js';

/** `flush`: what is staged is in FastDFS and has its ids, long before its age demands it. */

/** A trunk of a few small files is not full, and would be joined for an hour. */
const SLOW = { mergeMaxAge: '1h', idMaxAge: '1h', logLevel: 'silent' } as const;
const LARGE = { trunkSize: '64MiB', smallFileLimit: '4MiB', maxFileSize: '64MiB' } as const;
const CONTENT = Buffer.from('a small file');

async function opened(options: object = {}): Promise<Opened> {
  const { logLevel: _, ...how } = SLOW;
  const store = await openStore({ ...LARGE, ...how, ...options });
  store.on('error', () => undefined);
  return { store, behind: store };
}

async function connected(options: object = {}): Promise<Opened> {
  const admin = newKey({ scopes: SCOPES });
  const apiKeys = await keyFile(admin);
  const gateway = await openGateway({ ...LARGE, ...SLOW, apiKeys, ...options });
  const store = connect({ url: gateway.url, apiKey: admin.text });
  onTestFinished(() => store.close());
  return { store, behind: gateway.store };
}

async function expectDownload({ trackers }: FileStore, fileId: string, expected: Buffer) {
  const client = new FastdfsClient({ trackers });
  onTestFinished(() => client.close());
  expect(Buffer.compare(await client.downloadBytes(fileId), expected)).toBe(0);
}

describe.each([
  ['open()', opened],
  ['connect()', connected],
])('%s', (_, openOne) => {
  test('small and large files have ids by which a plain client downloads them', async () => {
    const { store, behind } = await openOne();
    const large = Buffer.alloc(5_000_000, 'large');
    const small = await store.put(CONTENT, { name: 'a.txt' });
    const whole = await store.put(large, { name: 'b.bin' });
    const before = await store.stat(small.key);
    expect(before.fileId).toBeUndefined();
    expect(before.idPending).toMatchObject({ reason: 'waiting', by: expect.any(Date) });
    await store.flush();
    for (const [{ key }, bytes] of [
      [small, CONTENT],
      [whole, large],
    ] as const) {
      const { state, fileId = '', idPending } = await store.stat(key);
      expect({ state, idPending }).toEqual({ state: 'merged', idPending: undefined });
      await expectDownload(behind, fileId, bytes);
    }
  });

  test('an empty store flushes', async () => {
    const { store } = await openOne();
    await store.flush();
  });

  test('without a storage it says what stops it, and loses nothing', async () => {
    const { trackers, storages } = await testCluster();
    const { store } = await openOne({ trackers });
    const { key } = await store.put(CONTENT);
    for (const storage of storages) await storage.close();
    await expect(store.flush({ timeoutMs: 1_000 })).rejects.toMatchObject({
      code: 'storage_unavailable',
      retryable: true,
      message: expect.stringMatching(/1 files still wait after 1000 ms \(FastDFS takes no trunk: /),
    });
    expect(await (await store.get(key)).bytes()).toEqual(CONTENT);
    const { idPending } = await store.stat(key);
    expect(idPending).toEqual({ reason: 'retrying' });
    for (const wrong of [0, -1, 1.5, 3_600_001]) {
      const flushing = store.flush({ timeoutMs: wrong });
      await expect(flushing).rejects.toMatchObject({ code: 'invalid_option' });
    }
    await expect(store.flush({ signal: AbortSignal.abort() })).rejects.toMatchObject({
      code: 'aborted',
    });
  });

  test('it ends while uploads go on', async () => {
    const { store } = await openOne({ durability: 'os' });
    const { key } = await store.put(CONTENT);
    let isOver = false;
    const upload = async (): Promise<void> => {
      while (!isOver) await store.put(CONTENT);
    };
    const uploads = [upload(), upload(), upload()];
    try {
      await store.flush();
      expect((await store.stat(key)).fileId).toBeDefined();
    } finally {
      isOver = true;
      await Promise.all(uploads);
    }
  });
});

test('files of a trunk that would have been joined have their ids, and the store says so', async () => {
  const { behind: store } = await opened({ mergeMaxAge: '20ms' });
  const merged = new Map<string, string>();
  const { key } = await store.put(CONTENT, { name: 'a.txt' });
  await until(() => store.stats().mergedFiles === 1);
  const { state, fileId, idPending, stagedAt } = await store.stat(key);
  expect({ state, fileId }).toEqual({ state: 'packing', fileId: undefined });
  expect(idPending?.reason).toBe('joining');
  // An hour, and what it takes to look.
  expect(idPending!.by!.getTime() - stagedAt.getTime()).toBe(3_660_000);
  const { files } = await store.list();
  expect(files[0]).toEqual(await store.stat(key));
  store.on('merged', (event) => merged.set(event.key, event.fileId));
  const settled = store.settled(key);
  await store.flush();
  expect(await settled).toBe((await store.stat(key)).fileId);
  expect(merged.get(key)).toBe(await settled);
  expect(store.stats().trunks).toBe(1);
  await expectDownload(store, await settled, CONTENT);
});

test('a flush that the closing of the store ends says so', async () => {
  const { trackers, storages } = await testCluster();
  const { behind: store } = await opened({ trackers });
  await store.put(CONTENT);
  for (const storage of storages) await storage.close();
  const flushing = expect(store.flush()).rejects.toMatchObject({ code: 'closed' });
  await until(() => store.stats().sendRetries > 0);
  await store.close();
  await flushing;
});

import { FastdfsClient } from '@stevedore/fastdfs';
import { startIoServer, startStorage, startTracker } from '@stevedore/storage';
import { expect, onTestFinished, test } from 'vitest';
import { RawClient, until } from '../storage/support.js';
import { temporaryFolder } from '../support/temporary.js';

test('a cluster with a secret keeps its I/O servers to itself', async () => {
  const secret = 'sixteen bytes and more';
  const access = { secrets: [secret] };
  const tracker = await startTracker({ port: 0, ...access });
  onTestFinished(() => tracker.close());
  const trackers = [`127.0.0.1:${tracker.port}`];
  const ioOptions = { port: 0, directory: temporaryFolder(), trackers, ...access };
  const server = await startIoServer(ioOptions);
  onTestFinished(() => server.close());
  const storage = await startStorage({
    port: 0,
    storePaths: [temporaryFolder()],
    trackers,
    ...access,
    cacheBytes: 0,
    tiers: { enabled: true, bytesPerSecond: 1e9, ioListIntervalMs: 20 },
  });
  onTestFinished(() => storage.close());
  await storage.active();
  await until(() => storage.migrationStatus()!.ioServers.some(({ isActive }) => isActive));
  const client = new FastdfsClient({ trackers, secret });
  onTestFinished(() => client.close());
  const large = Buffer.alloc(300_000, 7);
  const id = await client.upload(large);
  expect(storage.migrationStatus()!.ioFiles).toEqual({ files: 1, bytes: large.length });
  expect(await client.downloadBytes(id)).toEqual(large);
  const stranger = await RawClient.open(server.port);
  expect(await stranger.isOpen()).toBe(true);
  await stranger.ended();
});

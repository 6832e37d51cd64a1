import { connect } from 'node:net';
import { FastdfsClient } from '@stevedore/fastdfs';
import { startStorage } from '@stevedore/node';
import { startTracker } from '@stevedore/tracker';
import { describe, expect, it, onTestFinished } from 'vitest';
import { until } from '../../support/storage/support.js';
import { temporaryFolder } from '../../support/temporary.js';

/** A cluster that is reached over IPv6 alone. Its storages need ids, as with the C servers. */

function hasIpv6(): Promise<boolean> {
  return new Promise((resolve) => {
    // Nobody listens there; what matters is who says so.
    const socket = connect({ host: '::1', port: 9 });
    socket.once('connect', () => {
      socket.destroy();
      resolve(true);
    });
    socket.once('error', ({ code }: NodeJS.ErrnoException) => resolve(code === 'ECONNREFUSED'));
  });
}

const available = await hasIpv6();
if (!available) console.warn('skipped: this machine has no IPv6 loopback address');

async function trackerOf(storageIds: readonly string[]) {
  const tracker = await startTracker({ host: '::1', port: 0, storageIds });
  onTestFinished(() => tracker.close());
  return `[::1]:${tracker.port}`;
}

async function storageOf(tracker: string, errors: Error[] = []) {
  const storage = await startStorage({
    host: '::1',
    port: 0,
    storePaths: [temporaryFolder()],
    trackers: [tracker],
    onError: (error) => errors.push(error),
  });
  onTestFinished(() => storage.close());
  return storage;
}

describe.skipIf(!available && !process.env.CI)('a cluster at IPv6 addresses', () => {
  it('stores, lists and serves files by storage ids', async () => {
    const tracker = await trackerOf(['100001 group1 [::1]']);
    const storage = await storageOf(tracker);
    await storage.active();
    const client = new FastdfsClient({ trackers: [tracker] });
    onTestFinished(() => client.close());
    const bytes = Buffer.from('over six');
    const id = await client.upload(bytes, { extension: 'txt' });
    expect(client.describe(id).source).toBe('100001');
    expect(await client.downloadBytes(id)).toEqual(bytes);
    expect(await client.info(id)).toMatchObject({ size: 8, sourceAddress: '::1' });
    expect(await client.locate(id)).toMatchObject({ address: '::1', port: storage.port });
    expect(await client.listStorages('group1')).toMatchObject([{ id: '100001', address: '::1' }]);
    await client.delete(id);
  });

  it('tells a storage that it needs an id', async () => {
    const errors: Error[] = [];
    await storageOf(await trackerOf([]), errors);
    await until(async () => errors.length > 0);
    expect(errors[0]!.message).toMatch(/^Tracker \[::1\]:\d+: .*needs a storage id/);
  });
});

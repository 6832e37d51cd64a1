import { writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { isStoreError, type OpenOptions, open } from '@stevedore/client';
import { decoratedDisk, localDisk } from '@stevedore/disk';
import { startStorage } from '@stevedore/node';
import { startTracker } from '@stevedore/tracker';
import { describe, expect, onTestFinished, test } from 'vitest';
import { until } from '../../support/staging.js';
import { openStore, SMALL } from '../../support/store.js';
import { temporaryFolder } from '../../support/temporary.js';

describe('open', () => {
  test('a tracker that is not there: uploads are taken, ready says so', async () => {
    const store = await openStore({ trackers: ['127.0.0.1:1'], mergeMaxAge: '10ms' });
    store.on('error', () => {});
    const { key } = await store.put('still taken');
    expect((await (await store.get(key)).bytes()).toString()).toBe('still taken');
    const readiness = await store.ready();
    expect(readiness).toMatchObject({ ready: false, accepting: true, trackerReachable: false });
    expect(readiness.problems[0]).toContain('127.0.0.1:1');
  });

  test('a storage that is full: uploads are taken, ready says why no trunk is stored', async () => {
    const tracker = await startTracker({ port: 0 });
    onTestFinished(() => tracker.close());
    const trackers = [`127.0.0.1:${tracker.port}`];
    const storage = await startStorage({
      ...{ port: 0, trackers, storePaths: [temporaryFolder()] },
      disk: decoratedDisk(localDisk, {
        space: async () => ({ totalBytes: 2 ** 40, freeBytes: 0 }),
      }),
    });
    onTestFinished(() => storage.close());
    await storage.active();
    const store = await openStore({ trackers, mergeMaxAge: '10ms' });
    store.on('error', () => {});
    await store.put('still taken');
    await until(async () => (await store.ready()).problems.length > 0);
    const { accepting, problems } = await store.ready();
    expect(accepting).toBe(true);
    expect(problems).toEqual([expect.stringMatching(/^trunks are not stored: .*no space/)]);
  });

  test('a directory twice in one process is refused with that reason, and again once it is closed', async () => {
    const directory = temporaryFolder();
    const first = await openStore({ directory });
    await expect(open({ directory })).rejects.toMatchObject({
      code: 'directory_locked',
      message: expect.stringContaining('is open in this process already'),
    });
    await first.close();
    const { key } = await (await openStore({ directory })).put('again');
    expect(key).toHaveLength(22);
  });

  test('a port that is taken is named', async () => {
    const server = createServer().listen(0, '127.0.0.1');
    await new Promise((resolve) => server.once('listening', resolve));
    onTestFinished(() => void server.close());
    const { port } = server.address() as { port: number };
    const failed = await openStore({ trackerPort: port }).catch((error) => error);
    expect(isStoreError(failed, 'port_in_use')).toBe(true);
    expect(failed.message).toContain(String(port));
  });

  test('a directory that cannot be used is named', async () => {
    const path = join(temporaryFolder(), 'file');
    writeFileSync(path, '');
    await expect(open({ directory: path })).rejects.toMatchObject({ code: 'directory_unusable' });
  });

  test('unknown, ill-measured and contradictory options are refused', async () => {
    for (const options of [
      { trunksize: '64MiB' },
      { trunkSize: '64 parsecs' },
      { trunkSize: '64MB' },
      { durability: 'maybe' },
      { mergeMaxAge: '-1s' },
      { trunkSize: '1MiB', smallFileLimit: '1MiB' },
      { containerSize: '64MiB' },
      { trackers: ['host:port'] },
    ]) {
      const opened = open({ directory: temporaryFolder(), ...options } as OpenOptions);
      await expect(opened, JSON.stringify(options)).rejects.toMatchObject({
        code: 'invalid_option',
      });
    }
  });

  test('await using closes the store', async () => {
    const directory = temporaryFolder();
    {
      await using store = await open({ directory, ...SMALL });
      await store.put('x');
    }
    await using again = await open({ directory, ...SMALL });
    expect(again.stats().stagedFiles + again.stats().mergedFiles).toBe(1);
  });
});

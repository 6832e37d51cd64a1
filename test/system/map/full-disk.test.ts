import { rmSync, statfsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type FileStore, open } from '@stevedore/client';
import { expect, it, onTestFinished, vi } from 'vitest';
import { needsPostgres, PostgresServer } from '../../support/map/postgres-server.js';
import { mountSmallDisk, needsMount } from '../../support/small-disk.js';
import { soon } from '../../support/soon.js';
import { temporaryFolder } from '../../support/temporary.js';

/** The map's disk is full: a real PostgreSQL on a small file system in memory. */

vi.setConfig({ testTimeout: 120_000 });

const DISK = '128m';
const FILES = 200;

async function server(map: string, trackers?: string[]): Promise<FileStore> {
  const store = await open({
    ...{ directory: temporaryFolder(), map, stagedCopies: 1, mergeMaxAge: '1h' },
    ...(trackers ? { trackers } : {}),
  });
  onTestFinished(() => store.close());
  return store;
}

it.skipIf(needsPostgres.missing || needsMount.missing)(
  'while the disk of the map is full, servers stage, merge and read; then it hears of everything',
  async () => {
    const disk = mountSmallDisk(DISK);
    const database = await PostgresServer.start(false, disk);
    const first = await server(database.url);
    const second = await server(database.url, first.trackers as string[]);
    const errors = new Set<unknown>();
    for (const store of [first, second]) {
      store.on('error', (error) => errors.add((error as { code?: string }).code));
    }
    const before = await first.put('before');
    await first.flush();
    await (await soon(() => second.get(before.key))).bytes();
    const ballast = join(disk, 'ballast');
    const { bavail, bsize } = statfsSync(disk);
    writeFileSync(ballast, Buffer.alloc(bavail * bsize));
    const keys = new Map<string, string>();
    // Each trunk is a statement: sooner or later its log needs room, or a table does.
    await soon(async () => {
      const put = async (_: unknown, index: number) => {
        const content = `${keys.size} ${index} `.repeat(20);
        const { key } = await first.put(content, { name: 'n'.repeat(200) });
        return [key, content] as const;
      };
      const stored = await Promise.all(Array.from({ length: FILES }, put));
      for (const [key, content] of stored) keys.set(key, content);
      await first.flush();
      expect(first.stats().map?.isMapAvailable).toBe(false);
    });
    expect(first.stats().map?.pending).toBeGreaterThan(0);
    const [key] = [...keys.keys()].slice(-1) as [string];
    expect((await (await first.get(key)).bytes()).toString()).toBe(keys.get(key));
    await expect(second.get(key)).rejects.toMatchObject({
      ...{ code: 'storage_unavailable', retryable: true },
    });
    await first.delete(before.key);
    // PostgreSQL ends where it has no room for its log; it is started again once there is.
    await database.kill();
    rmSync(ballast);
    await database.restart();
    for (const [each, content] of keys) {
      const file = await soon(() => second.get(each));
      expect((await file.bytes()).toString()).toBe(content);
    }
    await soon(() => expect(second.get(before.key)).rejects.toMatchObject({ code: 'not_found' }));
    await soon(async () =>
      expect(first.stats().map).toMatchObject({ pending: 0, isMapAvailable: true }),
    );
    expect(errors).toEqual(new Set(['map_unavailable']));
    const { length } = database.run('SELECT file_key FROM stevedore_file').trim().split('\n');
    expect(length).toBe(keys.size);
  },
);

import { readdirSync, readlinkSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { type Disk, type DiskFile, decoratedDisk, decoratedFile, localDisk } from '@stevedore/disk';
import { smallFile } from '@stevedore/staging';
import { expect, test } from 'vitest';
import { quiet } from '../../../support/quiet.js';
import { openStaging, segmentsIn, stageFile, until } from '../../../support/staging.js';
import { temporaryFolder } from '../../../support/temporary.js';

/** The way of batches to the disk, over one whose durable writes end when a test says so. */

interface HeldWrite {
  readonly bytes: number;
  /** The bytes come to the disk. */
  finish(): Promise<void>;
  fail(): void;
}

function holdingDisk(): { readonly disk: Disk; readonly held: HeldWrite[] } {
  const held: HeldWrite[] = [];
  const hold = (file: DiskFile): DiskFile =>
    decoratedFile(file, {
      writeDurablyAt: (chunks, position) =>
        new Promise((resolve, reject) => {
          const bytes = chunks.reduce((sum, { length }) => sum + length, 0);
          held.push({
            bytes,
            finish: async () => {
              await file.writeDurablyAt!(chunks, position);
              resolve();
            },
            fail: () => reject(Object.assign(new Error('EIO: i/o error'), { code: 'EIO' })),
          });
        }),
    });
  return {
    disk: decoratedDisk(localDisk, { create: async (path) => hold(await localDisk.create(path)) }),
    held,
  };
}

interface Watched {
  readonly key: Promise<Buffer>;
  outcome: 'open' | 'stored' | 'refused';
}

function watch(key: Promise<Buffer>): Watched {
  const watched: Watched = { key, outcome: 'open' };
  key.then(
    () => {
      watched.outcome = 'stored';
    },
    () => {
      watched.outcome = 'refused';
    },
  );
  return watched;
}

test('two batches are on their way at a time and are acknowledged in their order', async () => {
  const { disk, held } = holdingDisk();
  const folder = temporaryFolder();
  const { staging } = await openStaging(folder, { disk });
  const first = watch(stageFile(staging, Buffer.from('first')));
  await until(() => held.length === 1);
  const second = [watch(stageFile(staging, Buffer.from('2a')))];
  second.push(watch(stageFile(staging, Buffer.from('2b'))));
  await until(() => held.length === 2);
  const third = watch(stageFile(staging, Buffer.from('third')));
  await quiet();
  expect(held).toHaveLength(2);
  await held[1]!.finish();
  await quiet();
  expect([first, ...second, third].map(({ outcome }) => outcome)).toEqual(Array(4).fill('open'));
  expect(held).toHaveLength(2);
  await held[0]!.finish();
  await until(() => held.length === 3);
  await Promise.all([first, ...second].map(({ key }) => key));
  expect(third.outcome).toBe('open');
  await held[2]!.finish();
  const keys = await Promise.all([first, ...second, third].map(({ key }) => key));
  const texts = ['first', '2a', '2b', 'third'];
  for (const [index, key] of keys.entries()) {
    expect((await staging.local.read(staging.fileMap.find(key)!))?.toString()).toBe(texts[index]);
  }
  await staging.close();
  const again = await openStaging(folder);
  expect(again.staging.stats().waitingFiles).toBe(4);
});

test('when a batch fails, the one behind it is refused and both are cut off', async () => {
  const { disk, held } = holdingDisk();
  const folder = temporaryFolder();
  const { staging } = await openStaging(folder, { disk });
  const kept = watch(stageFile(staging, Buffer.from('kept')));
  await until(() => held.length === 1);
  await held[0]!.finish();
  await kept.key;
  const segment = join(folder, 'container', readdirSync(join(folder, 'container'))[0]!);
  const { size } = statSync(segment);
  const failed = watch(stageFile(staging, Buffer.from('failed')));
  await until(() => held.length === 2);
  const behind = watch(stageFile(staging, Buffer.from('behind')));
  await until(() => held.length === 3);
  held[1]!.fail();
  await quiet();
  // It cannot be cut off before it is written.
  expect([failed.outcome, behind.outcome]).toEqual(['open', 'open']);
  await held[2]!.finish();
  await expect(failed.key).rejects.toMatchObject({ code: 'disk_failed' });
  await expect(behind.key).rejects.toMatchObject({ code: 'disk_failed' });
  expect(statSync(segment).size).toBe(size);
  const next = watch(stageFile(staging, Buffer.from('next')));
  await until(() => held.length === 4);
  await held[3]!.finish();
  await next.key;
  await staging.close();
  const again = await openStaging(folder);
  expect(again.staging.stats().waitingFiles).toBe(2);
});

test('nothing is made durable behind bytes that are not', async () => {
  const { disk, held } = holdingDisk();
  const { staging } = await openStaging(temporaryFolder(), { disk });
  const key = staging.keys.next();
  const file = { key, name: 'a', type: 'b', group: undefined, expiresAt: undefined };
  const rest = {
    once: undefined,
    size: 1,
    crc32: 0xe8b7be43,
    stagedAt: Date.now(),
  };
  const added = smallFile({ ...file, ...rest }, [Buffer.from('a')]);
  await staging.acceptance.stage([added], false);
  // A write and a sync, which reaches both.
  const synced = await stageFile(staging, Buffer.from('synced'));
  expect(held).toHaveLength(0);
  const next = watch(stageFile(staging, Buffer.from('next')));
  await until(() => held.length === 1);
  expect(held[0]!.bytes).toBeGreaterThan(4);
  await held[0]!.finish();
  await next.key;
  expect((await staging.local.read(staging.fileMap.find(synced)!))?.toString()).toBe('synced');
  expect((await staging.local.read(staging.fileMap.find(key)!))?.toString()).toBe('a');
});

test.runIf(process.platform === 'linux')('a finished segment keeps one descriptor', async () => {
  const folder = temporaryFolder();
  const { staging } = await openStaging(folder, { segmentBytes: 4096 });
  // Two at a time, so that two durable writes are under way.
  for (let pair = 0; pair < 10; pair += 1) {
    const bytes = Buffer.alloc(200_000, 7);
    await Promise.all([stageFile(staging, bytes), stageFile(staging, bytes)]);
  }
  const segments = segmentsIn(folder).length;
  expect(segments).toBeGreaterThan(5);
  const open = openPaths().filter((path) => path.startsWith(join(folder, 'container')));
  expect(open.length).toBeGreaterThanOrEqual(segments);
  expect(open.length).toBeLessThanOrEqual(segments + 2);
});

function openPaths(): string[] {
  return readdirSync('/proc/self/fd').flatMap((fd) => {
    try {
      return [readlinkSync(`/proc/self/fd/${fd}`)];
    } catch {
      return [];
    }
  });
}

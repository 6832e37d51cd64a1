import { randomBytes } from 'node:crypto';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { openDatabase } from '@stevedore/disk/sqlite';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { quiet } from '../../../support/quiet.js';
import { openStaging, segmentsIn, spoolFile, stageFile, until } from '../../../support/staging.js';
import { temporaryFolder } from '../../../support/temporary.js';

/** Another program has the FileMap open, as a backup tool does. */

vi.setConfig({ testTimeout: 60_000 });

function another(folder: string, begin: string) {
  const database = openDatabase(join(folder, 'filemap.sqlite'));
  let isOpen = true;
  const end = () => {
    if (isOpen) database.close();
    isOpen = false;
  };
  onTestFinished(end);
  database.exec(begin);
  // A transaction reads nothing before its first query.
  database.prepare('SELECT count(*) FROM files').get();
  return { end };
}

describe('while it writes', () => {
  test('an upload is refused, names the lock, and the event loop runs on', async () => {
    const folder = temporaryFolder();
    const { staging } = await openStaging(folder);
    const before = await stageFile(staging, Buffer.from('before'));
    const lock = another(folder, 'BEGIN IMMEDIATE');
    let turns = 0;
    const timer = setInterval(() => {
      turns += 1;
    }, 1);
    const refused = stageFile(staging, Buffer.from('refused'));
    await expect(refused).rejects.toMatchObject({
      code: 'filemap_locked',
      retryable: true,
      message: expect.stringContaining('another program holds a lock on the FileMap'),
    });
    clearInterval(timer);
    // It waited in pauses, in which others had their turns.
    expect(turns).toBeGreaterThan(20);
    expect(await staging.local.read(staging.fileMap.find(before)!)).toEqual(Buffer.from('before'));
    lock.end();
    const after = await stageFile(staging, Buffer.from('after'));
    expect(await staging.local.read(staging.fileMap.find(after)!)).toEqual(Buffer.from('after'));
    await staging.close();
    const again = await openStaging(folder);
    expect(again.staging.stats().waitingFiles).toBe(2);
  });

  test('a short one is waited for', async () => {
    const folder = temporaryFolder();
    const { staging } = await openStaging(folder);
    const lock = another(folder, 'BEGIN IMMEDIATE');
    const key = stageFile(staging, Buffer.from('patient'));
    await quiet();
    lock.end();
    expect(staging.fileMap.find(await key)).toBeDefined();
  });

  test('refusals leave no segments behind, and merging goes on afterwards', async () => {
    const folder = temporaryFolder();
    const { staging } = await openStaging(folder);
    await stageFile(staging, randomBytes(1000));
    const large = await spoolFile(staging, randomBytes(10_000));
    const lock = another(folder, 'BEGIN IMMEDIATE');
    for (let count = 0; count < 2; count += 1) {
      await expect(stageFile(staging, randomBytes(1000))).rejects.toMatchObject({
        code: 'filemap_locked',
      });
    }
    expect(readdirSync(join(folder, 'container'))).toEqual(['0000000001.seg', 'reserve']);
    const merging = staging.merging.flush();
    await quiet();
    lock.end();
    await merging;
    await until(() => staging.stats().mergedFiles === 2);
    expect(staging.fileMap.find(large)?.trunk).toBeDefined();
  });

  test('a start is refused, and rebuilds nothing', async () => {
    const folder = temporaryFolder();
    const { staging } = await openStaging(folder);
    await stageFile(staging, Buffer.from('kept'));
    await staging.close();
    const lock = another(folder, 'BEGIN IMMEDIATE');
    await expect(openStaging(folder)).rejects.toMatchObject({ code: 'filemap_locked' });
    lock.end();
    expect(readdirSync(folder).filter((name) => name.includes('damaged'))).toEqual([]);
    const again = await openStaging(folder);
    expect(again.staging.stats().waitingFiles).toBe(1);
  });
});

test('one that reads for long holds up nothing: neither uploads nor the removal of segments', async () => {
  const folder = temporaryFolder();
  const { staging } = await openStaging(folder, { retain: 0, segmentBytes: 4096 });
  await stageFile(staging, randomBytes(3000));
  another(folder, 'BEGIN');
  for (let count = 0; count < 10; count += 1) await stageFile(staging, randomBytes(3000));
  const segments = segmentsIn(folder).length;
  await staging.merging.flush();
  await until(() => segmentsIn(folder).length < segments);
  expect(staging.stats().mergedFiles).toBe(11);
});

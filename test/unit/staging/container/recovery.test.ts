import { randomBytes } from 'node:crypto';
import { appendFileSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Staging } from '@stevedore/staging';
import { describe, expect, test } from 'vitest';
import { MemoryTrunkStore } from '../../../support/memory-trunk-store.js';
import {
  forgetFileMap,
  openStaging,
  segmentsIn,
  spoolFile,
  stageFile,
} from '../../../support/staging.js';
import { temporaryFolder } from '../../../support/temporary.js';

const MIB = 2 ** 20;

async function expectBytes(staging: Staging, key: Buffer, bytes: Buffer): Promise<void> {
  const row = staging.fileMap.find(key);
  expect(row).toBeDefined();
  expect((await staging.local.read(row!))?.equals(bytes)).toBe(true);
}

describe('after a restart', () => {
  test('everything is there, with the FileMap, without it, and with a damaged one', async () => {
    const folder = temporaryFolder();
    const store = awayStore();
    const files = new Map<Buffer, Buffer>();
    const first = await openStaging(folder, {}, store);
    for (let index = 0; index < 50; index++) {
      const bytes = randomBytes(1 + index * 100);
      files.set(await stageFile(first.staging, bytes, { name: `${index}.txt`, group: 'g' }), bytes);
    }
    const deleted = await stageFile(first.staging, randomBytes(10));
    await first.staging.deletions.delete(deleted);
    const large = await spoolFile(first.staging, randomBytes(2 * MIB));
    await first.staging.close();

    for (const harm of [
      () => {},
      () => forgetFileMap(folder),
      () => writeFileSync(join(folder, 'filemap.sqlite'), randomBytes(40_000)),
    ]) {
      harm();
      const { staging } = await openStaging(folder, {}, store);
      for (const [key, bytes] of files) await expectBytes(staging, key, bytes);
      expect(staging.fileMap.find([...files.keys()][3]!)).toMatchObject({
        name: '3.txt',
        group: 'g',
      });
      expect(staging.fileMap.find(deleted)).toBeUndefined();
      expect(staging.local.has(staging.fileMap.find(large)!)).toBe(true);
      expect(staging.stats()).toMatchObject({ waitingFiles: 50, spooledFiles: 1 });
      await staging.close();
    }
    expect(readdirSync(folder).some((name) => name.includes('damaged'))).toBe(true);
  });

  test('a torn or damaged end loses nothing that was acknowledged before it', async () => {
    const folder = temporaryFolder();
    const first = await openStaging(folder);
    const kept = await stageFile(first.staging, randomBytes(5000));
    const keptBytes = (await first.staging.local.read(first.staging.fileMap.find(kept)!))!;
    const [name] = segmentsIn(folder);
    const path = join(folder, 'container', name!);
    const sound = readFileSync(path).length;
    await stageFile(first.staging, randomBytes(5000));
    await first.staging.close();
    const whole = readFileSync(path);
    for (const cut of [1, 30, 59, 61, 200, whole.length - sound - 1]) {
      forgetFileMap(folder);
      writeFileSync(path, whole.subarray(0, sound + cut));
      const { staging } = await openStaging(folder);
      await expectBytes(staging, kept, keptBytes);
      expect(staging.stats().waitingFiles, `cut ${cut}`).toBe(1);
      await staging.close();
    }
    forgetFileMap(folder);
    writeFileSync(path, whole);
    appendFileSync(path, randomBytes(300));
    const { staging } = await openStaging(folder);
    expect(staging.stats().waitingFiles).toBe(2);
    const later = await stageFile(staging, Buffer.from('later'));
    await expectBytes(staging, later, Buffer.from('later'));
  });

  test('spool files that no record speaks of are removed', async () => {
    const folder = temporaryFolder();
    const first = await openStaging(folder);
    await first.staging.close();
    writeFileSync(join(folder, 'spool', 'ab'.repeat(16)), 'left behind');
    writeFileSync(join(folder, 'spool', 'strange name'), 'left behind');
    await openStaging(folder);
    expect(readdirSync(join(folder, 'spool'))).toEqual([]);
  });
});

function awayStore(): MemoryTrunkStore {
  const store = new MemoryTrunkStore();
  store.isAway = true;
  return store;
}

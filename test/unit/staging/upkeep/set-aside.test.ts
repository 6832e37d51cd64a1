import { randomBytes } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Staging } from '@stevedore/staging';
import { expect, test } from 'vitest';
import { turnBit } from '../../../support/rot.js';
import {
  forgetFileMap,
  openStaging,
  segmentsIn,
  spoolFile,
  stageFile,
  until,
} from '../../../support/staging.js';
import { temporaryFolder } from '../../../support/temporary.js';

/** What is damaged and waits is kept, told of, and holds up nothing else. */

const MIB = 2 ** 20;
/** Every file has a segment of its own, and none is kept longer than it must. */
const OPTIONS = { retain: 0, segmentBytes: 1000 };
const FAST = { repair: true, bytesPerSecond: 2 ** 30 };

async function mergeOthers(staging: Staging): Promise<Buffer[]> {
  const keys: Buffer[] = [];
  for (let index = 0; index < 5; index++) keys.push(await stageFile(staging, randomBytes(2000)));
  await staging.merging.flush();
  return keys;
}

test('a damaged file that waits keeps no segment, and is the same error for ever', async () => {
  const folder = temporaryFolder();
  const first = await openStaging(folder, OPTIONS);
  const bytes = randomBytes(2000);
  const key = await stageFile(first.staging, bytes, { name: 'a.jpg', group: 'page' });
  const oldest = segmentsIn(folder)[0]!;
  turnBit(join(folder, 'container'), bytes);
  await mergeOthers(first.staging);
  await until(() => !segmentsIn(folder).includes(oldest));
  await until(() => segmentsIn(folder).length < 4);

  const check = async (staging: Staging) => {
    const row = staging.fileMap.find(key)!;
    expect(row).toMatchObject({ name: 'a.jpg', group: 'page', size: 2000, trunk: undefined });
    expect((await staging.scrub(FAST)).damaged).toMatchObject([{ where: 'spool' }]);
    expect(staging.local.has(row)).toBe(false);
    expect(staging.stats().damage.quarantined).toBe(1);
    const fsck = await staging.fsck({ repair: true });
    expect(fsck).toMatchObject({ damagedCopies: 1, spooledFiles: 1, problems: [] });
  };
  await check(first.staging);
  expect(first.staging.stats().damage.found).toBe(1);
  // The bytes as they are: all but one bit of them.
  const kept = readFileSync(join(folder, 'spool', key.toString('hex')));
  expect(kept.filter((byte, at) => byte !== bytes[at])).toHaveLength(1);
  await first.staging.close();

  const again = await openStaging(folder, OPTIONS, first.store);
  await check(again.staging);
  await mergeOthers(again.staging);
  await again.staging.close();
  forgetFileMap(folder);
  const anew = await openStaging(folder, OPTIONS, first.store);
  await check(anew.staging);
  await anew.staging.deletions.delete(key);
  await until(() => readdirSync(join(folder, 'spool')).length === 0);
  expect(anew.staging.stats()).toMatchObject({ spooledFiles: 0, damage: { quarantined: 0 } });
});

test('its deletion counts, also in a FileMap that is made anew', async () => {
  const folder = temporaryFolder();
  const { staging, store } = await openStaging(folder, OPTIONS);
  const bytes = randomBytes(2000);
  const key = await stageFile(staging, bytes);
  const oldest = segmentsIn(folder)[0]!;
  turnBit(join(folder, 'container'), bytes);
  await mergeOthers(staging);
  await until(() => !segmentsIn(folder).includes(oldest));
  await staging.deletions.delete(key);
  await staging.close();
  forgetFileMap(folder);
  const anew = await openStaging(folder, OPTIONS, store);
  expect(anew.staging.fileMap.find(key)).toBeUndefined();
});

test('the record of a damaged large file that waits goes on from segment to segment', async () => {
  const folder = temporaryFolder();
  const { staging, store } = await openStaging(folder, OPTIONS);
  store.isAway = true;
  const bytes = randomBytes(2 * MIB);
  const key = await spoolFile(staging, bytes);
  turnBit(join(folder, 'spool'), bytes);
  store.isAway = false;
  const oldest = segmentsIn(folder)[0]!;
  for (let round = 0; round < 3; round++) await mergeOthers(staging);
  await until(() => !segmentsIn(folder).includes(oldest));
  await until(() => segmentsIn(folder).length < 4);
  await staging.close();
  forgetFileMap(folder);
  const anew = await openStaging(folder, OPTIONS, store);
  expect(anew.staging.fileMap.find(key)).toMatchObject({
    local: { at: 'spool' },
    trunk: undefined,
    size: 2 * MIB,
  });
  await anew.staging.merging.flush();
  expect(anew.staging.stats()).toMatchObject({ unpackableFiles: 1, damage: { quarantined: 1 } });
});

test('one that is found sound again is merged like any other', async () => {
  const folder = temporaryFolder();
  const { staging, store } = await openStaging(folder, { ...OPTIONS, retain: MIB });
  const bytes = randomBytes(2000);
  const key = await stageFile(staging, bytes);
  turnBit(join(folder, 'container'), bytes);
  await mergeOthers(staging);
  expect(staging.fileMap.find(key)?.trunk).toBeUndefined();
  turnBit(join(folder, 'container'), bytes);
  await staging.close();
  // Its segment is looked at before the scrub has been.
  const again = await openStaging(folder, OPTIONS, store);
  await mergeOthers(again.staging);
  expect(again.staging.fileMap.find(key)).toMatchObject({
    trunk: undefined,
    local: { at: 'container' },
  });
  expect((await again.staging.scrub(FAST)).damaged).toEqual([]);
  await again.staging.merging.flush();
  expect(again.staging.fileMap.find(key)?.trunk).toBeDefined();
});

test('a single small file is merged beside a damaged large one', async () => {
  const folder = temporaryFolder();
  const { staging, store } = await openStaging(folder);
  const bytes = randomBytes(2 * MIB);
  await spoolFile(staging, bytes);
  turnBit(join(folder, 'spool'), bytes);
  await staging.merging.flush();
  expect(staging.stats().unpackableFiles).toBe(1);
  const key = await stageFile(staging, randomBytes(100));
  await staging.merging.flush(AbortSignal.timeout(10_000));
  expect(staging.fileMap.find(key)?.trunk).toBeDefined();
  expect(store.files.size).toBe(1);
});

test('what stands behind a damaged file in its segment is in a FileMap that is made anew', async () => {
  const folder = temporaryFolder();
  const { staging, store } = await openStaging(folder);
  const rotten = randomBytes(2000);
  const files = new Map([[await stageFile(staging, randomBytes(100)), 100]]);
  const key = await stageFile(staging, rotten, { name: 'a.jpg' });
  for (let index = 0; index < 5; index++) {
    files.set(await stageFile(staging, randomBytes(1000 + index)), 1000 + index);
  }
  await staging.close();
  // A process that adds to nothing leaves no segment; one that takes a file begins the next.
  const second = await openStaging(folder, {}, store);
  files.set(await stageFile(second.staging, randomBytes(50)), 50);
  await second.staging.close();
  turnBit(join(folder, 'container'), rotten);
  forgetFileMap(folder);

  const anew = await openStaging(folder, {}, store);
  for (const [each, size] of files) expect(anew.staging.fileMap.find(each)).toMatchObject({ size });
  expect(anew.staging.fileMap.find(key)).toMatchObject({ name: 'a.jpg', trunk: undefined });
  await until(() => anew.errors.some((error) => error.message.includes('1 file(s)')));
  expect(anew.staging.stats().damage.quarantined).toBe(1);
  await anew.staging.merging.flush();
  for (const each of files.keys()) expect(anew.staging.fileMap.find(each)!.trunk).toBeDefined();
  await expect(anew.staging.local.read(anew.staging.fileMap.find(key)!)).rejects.toMatchObject({
    code: 'corrupt',
  });
});

import { randomBytes } from 'node:crypto';
import { expect, test } from 'vitest';
import { forgetFileMap, openStaging, stageFile } from '../../../support/staging.js';
import { temporaryFolder } from '../../../support/temporary.js';

/** Files that say what they were made of. */

const ONCE = randomBytes(16);

test('what a derived file was made of, and the mark of an upload, outlive a lost FileMap', async () => {
  for (const retain of [undefined, 0]) {
    const folder = temporaryFolder();
    const opened = await openStaging(folder, retain === 0 ? { retain } : {});
    const original = await stageFile(opened.staging, randomBytes(900));
    const marks = { pictureOf: original, once: ONCE.toString('base64url') };
    const derived = await stageFile(opened.staging, randomBytes(100), marks);
    if (retain === 0) await opened.staging.merging.flush();
    await opened.staging.close();
    forgetFileMap(folder);
    const { staging } = await openStaging(folder, {}, opened.store);
    const { fileMap } = staging;
    expect(fileMap.find(derived)).toMatchObject(marks);
    expect(fileMap.derivedOf(original).map(({ key }) => key)).toEqual([derived]);
    expect(fileMap.findOnce(ONCE).map(({ key }) => key)).toEqual([derived]);
    const where = retain === 0 ? 'derivedMerged' : 'derivedStaged';
    expect(fileMap.counters()).toMatchObject({ [`${where}Files`]: 1, [`${where}Bytes`]: 100 });
    expect(fileMap.recount()).toEqual(fileMap.counters());
  }
});

test('a derived file goes with its original, one that is being made meanwhile too', async () => {
  let now = Date.now();
  const { staging } = await openStaging(temporaryFolder(), { now: () => now });
  const { fileMap, deletions } = staging;
  const original = await stageFile(staging, randomBytes(500));
  const before = await stageFile(staging, randomBytes(100), { pictureOf: original });
  await staging.merging.flush();
  const deleting = deletions.delete(original);
  const during = await stageFile(staging, randomBytes(100), { pictureOf: original });
  await deleting;
  const expiring = await stageFile(staging, randomBytes(500), { expiresAt: now + 1000 });
  const ofExpired = await stageFile(staging, randomBytes(100), { pictureOf: expiring });
  now += 1000;
  expect(await deletions.deleteExpired()).toBe(1);
  const left = [before, during, ofExpired].filter((key) => fileMap.isAlive(key));
  expect([left, fileMap.recount()]).toEqual([[], fileMap.counters()]);
  expect(fileMap.counters()).toMatchObject({ derivedStagedFiles: 0, derivedMergedFiles: 0 });
});

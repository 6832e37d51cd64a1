import { randomBytes } from 'node:crypto';
import { expect, test } from 'vitest';
import { MemoryTrunkStore } from '../../../support/memory-trunk-store.js';
import {
  forgetFileMap,
  openStaging,
  segmentsIn,
  stageFile,
  until,
} from '../../../support/staging.js';
import { temporaryFolder } from '../../../support/temporary.js';

/** Segments go once their files are in FastDFS; what they remember goes on. */

const OPTIONS = { retain: 0, segmentBytes: 4096 };

test('a deletion outlives the segment that it was written in, as long as a trunk has the file', async () => {
  const folder = temporaryFolder();
  const store = new MemoryTrunkStore();
  const { staging } = await openStaging(folder, OPTIONS, store);
  const stage = () => stageFile(staging, randomBytes(3000));
  const keys = [await stage(), await stage(), await stage(), await stage()];
  await staging.merging.flush();
  await staging.deletions.delete(keys[0]!);
  const [first] = segmentsIn(folder).slice(-1);
  for (let round = 0; round < 3; round += 1) {
    await stage();
    await staging.merging.flush();
  }
  await until(() => !segmentsIn(folder).includes(first!));
  expect(store.files.size).toBe(4);
  await staging.close();

  forgetFileMap(folder);
  const again = (await openStaging(folder, OPTIONS, store)).staging;
  await until(() => again.rebuild.isComplete);
  expect(keys.map((key) => again.fileMap.find(key) !== undefined)).toEqual([
    false,
    true,
    true,
    true,
  ]);
});

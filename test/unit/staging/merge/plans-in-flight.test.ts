import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { GrowingPause } from '@stevedore/async';
import { expect, onTestFinished, test, vi } from 'vitest';
import { turnBit } from '../../../support/rot.js';
import { openStaging, stageFile, until } from '../../../support/staging.js';
import { temporaryFolder } from '../../../support/temporary.js';

const QUIET = { findsOrphans: false };

test('what FastDFS does not take is sent again after longer and longer pauses', async () => {
  const { staging, store } = await openStaging(temporaryFolder(), QUIET);
  const pauses = vi.spyOn(GrowingPause.prototype, 'next');
  onTestFinished(() => pauses.mockRestore());
  store.isAway = true;
  await stageFile(staging, randomBytes(500));
  const flushed = staging.merging.flush();
  await until(() => pauses.mock.results.length === 3);
  store.isAway = false;
  expect(pauses.mock.results.map(({ value }) => value)).toEqual([200, 400, 800]);
  await flushed;
  expect(staging.stats()).toMatchObject({ mergedFiles: 1, sendRetries: 3 });
});

test('how long a trunk took is told, and not as less than nothing', async () => {
  let at = Date.now();
  const { staging, store } = await openStaging(temporaryFolder(), { ...QUIET, now: () => at });
  const took: number[] = [];
  staging.changes.on('trunk', ({ durationMs }) => took.push(durationMs));
  // The clock may be set back meanwhile.
  for (const ms of [700, -5000]) {
    store.beforeReply = () => {
      at += ms;
    };
    await stageFile(staging, randomBytes(500));
    await staging.merging.flush();
  }
  expect(took).toEqual([700, 0]);
});

test('a damaged file is left out once the FileMap can be changed', async () => {
  const folder = temporaryFolder();
  const { staging, errors } = await openStaging(folder, QUIET);
  vi.spyOn(staging.fileMap, 'abandonTrunk').mockImplementationOnce(() => {
    throw new Error('the FileMap is full');
  });
  const files = [500, 600].map((size) => randomBytes(size));
  for (const bytes of files) await stageFile(staging, bytes);
  turnBit(join(folder, 'container'), files[0]!);
  await staging.merging.flush();
  expect(errors.map(({ message }) => message)).toContain('the FileMap is full');
  expect(staging.stats()).toMatchObject({ mergedFiles: 1, unpackableFiles: 1, sendRetries: 1 });
});

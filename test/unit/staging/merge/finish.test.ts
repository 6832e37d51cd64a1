import { randomBytes } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { openHeld } from '../../../support/held-trunk-store.js';
import { quiet } from '../../../support/quiet.js';
import { openStaging, stageFile, stageTogether, until } from '../../../support/staging.js';
import { temporaryFolder } from '../../../support/temporary.js';

const WEEK_MS = 7 * 86_400_000;
/** Time for what must not happen. */

describe('a flush that is to give all files their ids', () => {
  const JOINING = { idMaxAge: WEEK_MS };

  test.each([
    ['takes none', 'FastDFS takes no trunk: away', 'away'],
    ['is slow', 'it takes longer', undefined],
  ])('is in vain while FastDFS %s: it says so, and what waits stays', async (_, why, cause) => {
    const { staging, store, errors } = await openHeld(JOINING);
    store.isAway = cause !== undefined;
    await stageTogether(
      staging,
      [1, 2, 3].map(() => randomBytes(500)),
    );
    const flushed = staging.merging.flush();
    await until(() => store.waiting.length > 0 || errors.length > 0);
    const text = `3 files still wait after 60 ms (${why}); they stay on this disk`;
    const finished = staging.merging.finish(60);
    await expect(finished).rejects.toMatchObject({
      code: 'storage_unavailable',
      message: expect.stringContaining(text),
    });
    const error = (await finished.catch((failure: unknown) => failure)) as Error;
    expect((error.cause as Error | undefined)?.message).toBe(cause);
    store.isAway = false;
    store.release();
    await staging.merging.finish(20_000);
    await flushed;
    expect(staging.stats()).toMatchObject({ waitingFiles: 0, mergedFiles: 3 });
    // Later ones are joined again.
    await stageFile(staging, randomBytes(500));
    await staging.merging.flush();
    expect(staging.fileMap.thinTrunks()).toHaveLength(1);
  });

  test('is aborted by its signal', async () => {
    const { staging } = await openHeld(JOINING);
    await stageFile(staging, randomBytes(500));
    const ending = new AbortController();
    const finished = staging.merging.finish(20_000, ending.signal);
    ending.abort(new Error('enough'));
    await expect(finished).rejects.toMatchObject({
      ...{ code: 'aborted', message: 'the flush was aborted' },
      cause: { message: 'enough' },
    });
  });

  test.each([false, true])('is closed with its store, begun before: %s', async (isBegun) => {
    const { staging, store } = await openHeld(JOINING);
    await stageFile(staging, randomBytes(500));
    const closed = { code: 'closed', message: 'the store is closed' };
    if (isBegun) {
      const finished = staging.merging.finish(20_000);
      const rejected = expect(finished).rejects.toMatchObject(closed);
      await until(() => store.waiting.length === 1);
      await staging.close();
      await rejected;
    } else {
      await staging.close();
      await expect(staging.merging.finish(20_000)).rejects.toMatchObject(closed);
    }
  });

  test('fails with what fails in it', async () => {
    const { staging } = await openStaging(temporaryFolder(), JOINING);
    await stageFile(staging, randomBytes(500));
    await staging.merging.flush();
    const { fileMap } = staging;
    const keep = fileMap.keepThinTrunks;
    Object.assign(fileMap, {
      keepThinTrunks: () => {
        throw new Error('the FileMap is busy');
      },
    });
    await expect(staging.merging.finish(20_000)).rejects.toThrow('the FileMap is busy');
    Object.assign(fileMap, { keepThinTrunks: keep });
    await staging.merging.finish(20_000);
    expect(fileMap.thinTrunks()).toEqual([]);
  });

  test('leaves no thin trunk, not even one that was on its way, and makes none', async () => {
    const { staging, store } = await openHeld(JOINING);
    await stageFile(staging, randomBytes(500));
    const flushed = staging.merging.flush();
    await until(() => store.waiting.length === 1);
    await stageFile(staging, randomBytes(500));
    const finished = staging.merging.finish(20_000);
    await until(() => store.waiting.length === 2);
    const { fileMap } = staging;
    const seen: number[] = [];
    staging.changes.on('trunk', () => seen.push(fileMap.thinTrunks().length));
    // The one that is to be joined no more comes last.
    store.waiting[1]!();
    await until(() => seen.length === 1);
    store.release();
    await Promise.all([flushed, finished]);
    expect(seen).toEqual([0, 1]);
    expect(fileMap.thinTrunks()).toEqual([]);
  });

  test('waits for files that begin to be moved meanwhile', async () => {
    const { staging, store } = await openHeld(JOINING);
    await stageFile(staging, randomBytes(500));
    let isFinished = false;
    const finished = staging.merging.finish(20_000).then(() => {
      isFinished = true;
    });
    await until(() => store.waiting.length === 1);
    await staging.files.whileMoving(async () => {
      store.release();
      await until(() => staging.stats().mergedFiles === 1);
      await quiet();
      expect(isFinished).toBe(false);
    });
    await finished;
  });

  test('waits for thin trunks that are being joined, and leaves none', async () => {
    const { staging } = await openStaging(temporaryFolder(), JOINING);
    await stageFile(staging, randomBytes(500));
    await staging.merging.flush();
    let isFinished = false;
    let finished: Promise<void> | undefined;
    await staging.files.whileMoving(async () => {
      finished = staging.merging.finish(20_000).then(() => {
        isFinished = true;
      });
      await quiet();
      expect([isFinished, staging.fileMap.thinTrunks().length]).toEqual([false, 1]);
    });
    await finished;
    expect(staging.fileMap.thinTrunks()).toEqual([]);
  });
});

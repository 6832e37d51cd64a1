import { randomBytes } from 'node:crypto';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { StagingOptions } from '@stevedore/staging';
import { describe, expect, test, vi } from 'vitest';
import { openHeld } from '../../../support/held-trunk-store.js';
import { quiet } from '../../../support/quiet.js';
import {
  openStaging,
  spoolFile,
  stageFile,
  stageTogether,
  until,
} from '../../../support/staging.js';
import { temporaryFolder } from '../../../support/temporary.js';

const KIB = 1024;
const MIB = 2 ** 20;
const WEEK_MS = 7 * 86_400_000;

/** Time for the Merge Task to do what it must not. */

function contents(count: number, bytes: number): Buffer[] {
  return Array.from({ length: count }, () => randomBytes(bytes));
}

test('on their way at a time are two trunks and two large files; what waits follows', async () => {
  const { staging, store } = await openHeld();
  for (let file = 0; file < 4; file += 1) await spoolFile(staging, randomBytes(MIB + file));
  await stageTogether(staging, contents(30, 200 * KIB));
  const flushed = staging.merging.flush();
  await until(() => store.waiting.length === 4);
  await quiet();
  expect(staging.stats()).toMatchObject({ trunksInFlight: 2, largeFilesInFlight: 2 });
  expect(store.waiting).toHaveLength(4);
  const most = { trunksInFlight: 0, largeFilesInFlight: 0 };
  store.beforeStore = async () => {
    await nextTurn();
    const { trunksInFlight, largeFilesInFlight } = staging.stats();
    most.trunksInFlight = Math.max(most.trunksInFlight, trunksInFlight);
    most.largeFilesInFlight = Math.max(most.largeFilesInFlight, largeFilesInFlight);
  };
  store.release();
  await flushed;
  for (const count of Object.values(most)) expect(count).toBeLessThanOrEqual(2);
  expect(staging.stats()).toMatchObject({
    ...{ trunksInFlight: 0, largeFilesInFlight: 0, waitingFiles: 0, spooledFiles: 0 },
    mergedFiles: 34,
  });
});

test('one large file follows when another is stored, not two', async () => {
  const { staging, store } = await openHeld();
  for (let file = 0; file < 4; file += 1) await spoolFile(staging, randomBytes(MIB + file));
  await until(() => store.waiting.length === 2);
  store.waiting[0]!();
  await until(() => store.waiting.length === 3);
  await quiet();
  expect([store.waiting.length, staging.stats().largeFilesInFlight]).toEqual([3, 2]);
  store.release();
  await staging.merging.flush();
});

test('while two trunks are being stored, uploads do not wake it; their end does', async () => {
  const { staging, store } = await openHeld();
  await stageTogether(staging, contents(50, 60_000));
  await until(() => store.waiting.length === 2);
  const looks = vi.spyOn(staging.fileMap, 'waitingSpooled');
  for (const bytes of contents(50, 60_000)) await stageFile(staging, bytes);
  expect(looks.mock.calls.length).toBeLessThan(3);
  store.release();
  await until(() => staging.stats().mergedFiles > 80);
});

describe('a flush', () => {
  test('waits for the files that wait, and not for all that come meanwhile', async () => {
    const { staging, store } = await openStaging(temporaryFolder());
    const key = await stageFile(staging, randomBytes(500));
    let coming = 0;
    store.beforeStore = async () => {
      coming += 1;
      if (coming < 50) await stageFile(staging, randomBytes(500));
    };
    await staging.merging.flush();
    expect(staging.fileMap.find(key)!.trunk).toBeDefined();
    expect(coming).toBeLessThan(50);
  });

  test('ends with its signal, and then nothing is merged before its time', async () => {
    const { staging, store } = await openHeld();
    await stageFile(staging, randomBytes(500));
    const ending = new AbortController();
    const flushed = staging.merging.flush(ending.signal);
    await until(() => store.waiting.length === 1);
    ending.abort(new Error('enough'));
    await expect(flushed).rejects.toThrow('enough');
    store.release();
    await until(() => staging.stats().mergedFiles === 1);
    await staging.merging.flush();
    await stageFile(staging, randomBytes(500));
    await quiet();
    expect(staging.stats()).toMatchObject({ waitingFiles: 1, mergedFiles: 1 });
  });

  test('of a closed store ends at once', async () => {
    const { staging } = await openStaging(temporaryFolder());
    await stageFile(staging, randomBytes(500));
    await staging.close();
    await staging.merging.flush();
  });

  test('waits for files that are being moved out of trunks', async () => {
    const { staging } = await openStaging(temporaryFolder());
    let isFlushed = false;
    let flushed: Promise<void> | undefined;
    await staging.files.whileMoving(async () => {
      flushed = staging.merging.flush().then(() => {
        isFlushed = true;
      });
      await quiet();
      expect(isFlushed).toBe(false);
    });
    await flushed;
  });
});

test('a flush ends with the plans that it waits for, also where a file has been deleted', async () => {
  const { staging, store } = await openHeld();
  const key = await stageFile(staging, randomBytes(500));
  let isFlushed = false;
  const flushed = staging.merging.flush().then(() => {
    isFlushed = true;
  });
  await until(() => store.waiting.length === 1);
  await staging.deletions.delete(key);
  await quiet();
  expect([isFlushed, staging.stats().trunksInFlight]).toEqual([false, 1]);
  store.release();
  await flushed;
  expect(staging.stats()).toMatchObject({ trunksInFlight: 0, waitingFiles: 0, mergedFiles: 0 });
});

describe('files that are to be in FastDFS', () => {
  const NEVER = new AbortController().signal;

  test('are merged now; of those that are deleted none is awaited', async () => {
    const { staging } = await openStaging(temporaryFolder());
    const keys: Buffer[] = [];
    for (let file = 0; file < 3; file += 1) keys.push(await stageFile(staging, randomBytes(500)));
    await staging.deletions.delete(keys[1]!);
    await staging.merging.store(keys, NEVER);
    expect(staging.stats()).toMatchObject({ waitingFiles: 0, mergedFiles: 2 });
    await staging.merging.store(keys, NEVER);
    await staging.merging.store([], NEVER);
  });

  test('are awaited to the last, until the signal', async () => {
    const { staging, store } = await openHeld();
    const merged = await stageFile(staging, randomBytes(500));
    store.isHeld = false;
    await staging.merging.flush();
    store.isHeld = true;
    const waits = await stageFile(staging, randomBytes(500));
    const ending = new AbortController();
    let isStored = false;
    const storing = staging.merging.store([merged, waits], ending.signal).then(() => {
      isStored = true;
    });
    await until(() => store.waiting.length === 1);
    await quiet();
    expect(isStored).toBe(false);
    ending.abort(new Error('enough'));
    await expect(storing).rejects.toThrow('enough');
  });

  test('are not, if the store closes before', async () => {
    const { staging, store } = await openHeld();
    const key = await stageFile(staging, randomBytes(500));
    const storing = staging.merging.store([key], NEVER);
    const rejected = expect(storing).rejects.toMatchObject({ code: 'closed' });
    await until(() => store.waiting.length === 1);
    await staging.close();
    await rejected;
  });

  test('are there while they are moved from one trunk to another', async () => {
    const { staging, store } = await openStaging(temporaryFolder());
    const keys: Buffer[] = [];
    for (let file = 0; file < 9; file += 1) {
      keys.push(await stageFile(staging, randomBytes(100_000)));
    }
    await staging.merging.flush();
    for (const key of keys.slice(1)) await staging.deletions.delete(key);
    store.isAway = true;
    await staging.compact();
    expect(staging.fileMap.find(keys[0]!)).toMatchObject({ trunk: undefined });
    await staging.merging.store(keys.slice(0, 1), NEVER);
    expect(staging.stats().waitingFiles).toBe(1);
  });
});

describe('by itself', () => {
  test('a large file goes at once, although a small one waits', async () => {
    const { staging } = await openStaging(temporaryFolder());
    await stageFile(staging, randomBytes(500));
    await quiet();
    await spoolFile(staging, randomBytes(2 * MIB));
    await until(() => staging.stats().mergedFiles === 1);
    expect(staging.stats()).toMatchObject({ waitingFiles: 1, spooledFiles: 0 });
  });

  test('a file is merged once it has waited long enough, and the next one, too', async () => {
    const { staging } = await openStaging(temporaryFolder(), { mergeMaxAge: 30 });
    for (const mergedFiles of [1, 2, 3]) {
      await stageFile(staging, randomBytes(500));
      await until(() => staging.stats().mergedFiles === mergedFiles);
      // Nothing waits, which the task may have seen or not.
      if (mergedFiles === 2) await quiet();
    }
  });

  test('what comes adds to what waits', async () => {
    const { staging } = await openStaging(temporaryFolder());
    await stageTogether(staging, contents(7, 100_000));
    await quiet();
    expect(staging.stats()).toMatchObject({ waitingFiles: 7, trunks: 0 });
    await stageTogether(staging, contents(7, 100_000));
    await until(() => staging.stats().trunks === 1);
  });

  test('uploads wake it once there is enough for a trunk, and not before', async () => {
    const { staging } = await openStaging(temporaryFolder());
    await stageFile(staging, randomBytes(500));
    await quiet();
    const { files } = staging;
    const large = files.large.bind(files);
    let looks = 0;
    files.large = (limit) => {
      looks += 1;
      return large(limit);
    };
    for (let file = 0; file < 12; file += 1) await stageFile(staging, randomBytes(100_000));
    expect(looks).toBe(0);
    // A quarter more than a trunk of a MiB.
    await stageFile(staging, randomBytes(150_000));
    await until(() => staging.stats().trunks === 1);
  });

  test('one trunk follows the other, none longer than it may be', async () => {
    const { staging, store } = await openStaging(temporaryFolder());
    const sizes = Array.from({ length: 1200 }, (_, index) => 1000 + ((index * 617) % 8000));
    await stageTogether(
      staging,
      sizes.map((size) => randomBytes(size)),
    );
    await until(() => staging.stats().trunks >= 4);
    // Files of many sizes fill it to the byte.
    const lengths = [...store.files.values()].map(({ length }) => length);
    expect(Math.max(...lengths)).toBe(MIB);
    for (const length of lengths.slice(0, 4)) expect(MIB - length).toBeLessThanOrEqual(64);
  });

  test.each([
    ['on request', 1, 1],
    ['by itself', 14, 2],
  ])('files that are gone when it looks for them %s make no trunk', async (how, count, trunks) => {
    const { staging, errors } = await openStaging(temporaryFolder());
    const { files } = staging;
    let stored = 0;
    staging.changes.on('trunk', () => {
      stored += 1;
    });
    const candidates = files.candidates.bind(files);
    let looks = 0;
    files.candidates = async (...of) => {
      looks += 1;
      return looks === 1 ? [] : candidates(...of);
    };
    await stageTogether(staging, contents(count, 100_000));
    if (how === 'by itself') await until(() => looks > 0);
    await staging.merging.flush();
    expect(stored).toBe(trunks);
    expect(staging.stats()).toMatchObject({ waitingFiles: 0, mergedFiles: count, trunks });
    expect(errors).toEqual([]);
  });

  test('what waits is merged where an upload lacks room, however little it is', async () => {
    const { staging } = await openStaging(temporaryFolder(), {
      ...{ trunkSize: 16 * MIB, containerSize: 2 * MIB, segmentBytes: 64 * KIB, retain: 0 },
    });
    for (let file = 0; file < 40; file += 1) {
      // It may be refused.
      await stageFile(staging, randomBytes(100_000)).catch(() => undefined);
    }
    await until(() => staging.stats().trunks > 0);
  });

  test('the task goes on after a failure, which it reports once in a row', async () => {
    const { staging, errors } = await openStaging(temporaryFolder());
    const { files } = staging;
    const large = files.large.bind(files);
    let failures = ['full', 'full', 'slow', 'full'];
    files.large = (limit) => {
      const message = failures.shift();
      if (message !== undefined) throw new Error(`${message} ${limit}`);
      return large(limit);
    };
    await spoolFile(staging, randomBytes(2 * MIB));
    await until(() => staging.stats().mergedFiles === 1);
    const told = ['full 2', 'slow 2', 'full 2'];
    expect(errors.map(({ message }) => message)).toEqual(told);
    // It has gone well meanwhile.
    failures = ['full', 'full'];
    await spoolFile(staging, randomBytes(2 * MIB));
    await until(() => staging.stats().mergedFiles === 2);
    expect(errors.map(({ message }) => message)).toEqual([...told, 'full 2']);
  });

  /** Groups of which more files may follow, of a third of a trunk each. */
  async function openWithGroups(count: number, options: Partial<StagingOptions> = {}) {
    const clock: { aheadMs: number; at?: number } = { aheadMs: 0 };
    const now = () => clock.at ?? Date.now() + clock.aheadMs;
    const opened = await openStaging(temporaryFolder(), { trunkSize: 100 * KIB, now, ...options });
    const add = async (more: number) => {
      const prefix = `${opened.staging.stats().waitingFiles}`;
      for (let group = 0; group < more; group += 1) {
        await stageFile(opened.staging, randomBytes(32 * KIB), { group: `${prefix}-${group}` });
      }
    };
    await add(count);
    return { ...opened, clock, add };
  }

  test('groups of which more may follow wait until they are whole', async () => {
    const { staging, clock } = await openWithGroups(8);
    await quiet();
    expect(staging.stats()).toMatchObject({ waitingFiles: 8, trunks: 0 });
    clock.aheadMs = 2_000;
    await until(() => staging.stats().trunks > 0);
  });

  test('but not beyond eight trunks of them', async () => {
    const { staging, clock, add } = await openWithGroups(20);
    await quiet();
    expect(staging.stats()).toMatchObject({ waitingFiles: 20, trunks: 0 });
    await add(6);
    clock.at = Date.now();
    await until(() => staging.stats().trunks > 0);
  });

  test('nor where room is short', async () => {
    const { staging, clock } = await openWithGroups(8, { containerSize: 300 * KIB });
    clock.at = Date.now();
    await until(() => staging.stats().trunks > 0);
  });

  test('nor beyond the age limit', async () => {
    const { staging, clock } = await openWithGroups(8, { mergeMaxAge: 1_900 });
    const { stagedAt } = staging.files.oldest() ?? { stagedAt: 0 };
    // More may still follow to all of them, and the clock stands still.
    clock.at = stagedAt + 1_900;
    await until(() => staging.stats().trunks > 0);
  });
});

describe('a trunk that is not full', () => {
  async function levels(ageMs: number, idMaxAge = 3_600_000) {
    let at: number | undefined;
    const now = () => at ?? Date.now();
    const { staging } = await openStaging(temporaryFolder(), { idMaxAge, now });
    const key = await stageFile(staging, randomBytes(500));
    const { stagedAt } = staging.fileMap.find(key)!;
    // The oldest one counts, wherever it is.
    await until(() => Date.now() > stagedAt);
    await stageFile(staging, randomBytes(500));
    at = stagedAt + ageMs;
    await staging.merging.flush();
    return staging.fileMap.thinTrunks().map(({ thin, oldestAt }) => [thin, oldestAt! - stagedAt]);
  }

  test('may be joined with others as long as none of its files must have its id', async () => {
    expect(await levels(3_599_999)).toEqual([[1, 0]]);
    expect(await levels(3_600_000)).toEqual([]);
  });

  test('is final where ids come at once, even if the clock was set back', async () => {
    expect(await levels(-1000, 0)).toEqual([]);
  });

  test.each([
    ['a thin trunk', false, [1, 2, 3]],
    // Its files keep their first places, because these gave them ids.
    ['a final one', true, [undefined, 1, 2]],
  ])('has been written once more often than %s that its files come from', async (...of) => {
    const [, isFinal, [first, ...levels]] = of;
    const { staging } = await openStaging(temporaryFolder(), { idMaxAge: WEEK_MS });
    const { fileMap } = staging;
    const levelsNow = () => fileMap.thinTrunks().map(({ thin }) => thin);
    const keys: Buffer[] = [];
    for (let file = 0; file < 16; file += 1)
      keys.push(await stageFile(staging, randomBytes(60_000)));
    if (isFinal) await staging.merging.finish(60_000);
    else await staging.merging.flush();
    expect(levelsNow()).toEqual(first ? [first] : []);
    let added: Buffer | undefined;
    for (const level of levels) {
      for (const key of keys.splice(0, (keys.length >> 1) + 1)) await staging.deletions.delete(key);
      if (added) await staging.deletions.delete(added);
      await staging.compact();
      // A new one makes it no younger.
      added = await stageFile(staging, randomBytes(500));
      await staging.merging.flush();
      await until(() => fileMap.thinTrunks().length === 1);
      expect(levelsNow()).toEqual([level]);
    }
  });
});

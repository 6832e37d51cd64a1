import { randomBytes } from 'node:crypto';
import { fileIdOf, formatKey } from '@stevedore/staging';
import { describe, expect, test } from 'vitest';
import { MemoryTrunkStore } from '../../../support/memory-trunk-store.js';
import { openStaging, spoolFile, stageFile, until } from '../../../support/staging.js';
import { temporaryFolder } from '../../../support/temporary.js';

const MIB = 2 ** 20;
const CHECK = { repair: false };
const REPAIR = { repair: true };
const FAST = { repair: true, bytesPerSecond: 2 ** 30 };

describe('the check', () => {
  test('of a sound store: every byte is live or dead, and there are no problems', async () => {
    const { staging, store } = await openStaging(temporaryFolder());
    const keys: Buffer[] = [];
    for (let index = 0; index < 10; index++) keys.push(await stageFile(staging, randomBytes(1000)));
    await staging.merging.flush();
    await staging.deletions.delete(keys[0]!);
    await stageFile(staging, randomBytes(77));
    const { problems, overheadBytes, ...sums } = await staging.fsck(CHECK);
    expect(problems).toEqual([]);
    const inStore = [...store.files.values()].reduce((sum, bytes) => sum + bytes.length, 0);
    expect(overheadBytes).toBe(inStore - 10_000);
    expect(sums).toEqual({
      waitingFiles: 1,
      waitingBytes: 77,
      spooledFiles: 0,
      spooledBytes: 0,
      mergedFiles: 9,
      liveBytes: 9000,
      deadFiles: 1,
      deadBytes: 1000,
      trunks: 1,
      storedBytes: inStore,
      unreadTrunks: 0,
      unreadBytes: 0,
      orphanTrunks: 0,
      orphanBytes: 0,
      openPlans: 0,
      openBytes: 0,
      unconfirmedTrunks: 0,
      damagedCopies: 0,
      orphans: [],
      possibleOrphans: [],
      unlisted: [],
    });
  });

  test('a trunk that FastDFS lost is named, and stored again from the copies on this disk', async () => {
    const { staging, store } = await openStaging(temporaryFolder());
    const files = new Map<Buffer, Buffer>();
    for (let index = 0; index < 10; index++) {
      const bytes = randomBytes(1000);
      files.set(await stageFile(staging, bytes), bytes);
    }
    await staging.merging.flush();
    const [trunk] = store.files.keys();
    store.files.clear();
    expect((await staging.fsck(CHECK)).problems).toMatchObject([
      { code: 'trunk_missing', subject: trunk, repaired: false },
    ]);
    expect((await staging.fsck(REPAIR)).problems).toMatchObject([{ repaired: true }]);
    await staging.merging.flush();
    // The trunk that is gone is given up in the background.
    await until(async () => (await staging.fsck(CHECK)).problems.length === 0);
    for (const [key, bytes] of files) {
      const row = staging.fileMap.find(key)!;
      const stored = store.files.get(row.trunk!.fileId)!;
      const slice = stored.subarray(row.trunk!.offset, row.trunk!.offset + row.size);
      expect(slice.equals(bytes)).toBe(true);
    }
  });

  test('files without any copy are named one by one', async () => {
    const { staging, store } = await openStaging(temporaryFolder(), {
      retain: 0,
      segmentBytes: 1000,
    });
    const keys: Buffer[] = [];
    for (let index = 0; index < 5; index++) keys.push(await stageFile(staging, randomBytes(2000)));
    await staging.merging.flush();
    await until(() => !staging.local.has(staging.fileMap.find(keys[0]!)!));
    store.files.clear();
    const { problems } = await staging.fsck(REPAIR);
    const lost = problems.filter(({ code }) => code === 'file_lost').map(({ subject }) => subject);
    expect(lost).toContain(formatKey(keys[0]!));
    expect(problems.at(-1)).toMatchObject({ code: 'trunk_missing', repaired: false });
  });

  test('plans that were given up stay open until the storages have been asked', async () => {
    const folder = temporaryFolder();
    const store = new MemoryTrunkStore();
    store.isAway = true;
    const first = await openStaging(folder, { mergeMaxAge: 10 }, store);
    await stageFile(first.staging, randomBytes(5000));
    await until(() => first.errors.length > 0);
    await first.staging.close();
    store.unlisted = ['a storage is away'];
    const { staging } = await openStaging(folder, {}, store);
    const report = await staging.fsck(CHECK);
    expect(report).toMatchObject({ openPlans: 1, unlisted: ['a storage is away'] });
    expect(report.openBytes).toBeGreaterThan(5000);
    store.unlisted = [];
    expect(await staging.fsck(CHECK)).toMatchObject({ openPlans: 0, openBytes: 0, unlisted: [] });
  });
});

describe('the scrub', () => {
  test('of a sound store reads everything twice: on this disk and in trunks', async () => {
    const { staging } = await openStaging(temporaryFolder());
    for (let index = 0; index < 20; index++) await stageFile(staging, randomBytes(1000));
    const large = await spoolFile(staging, randomBytes(2 * MIB));
    await staging.merging.flush();
    await stageFile(staging, randomBytes(500));
    let last = 0;
    const onProgress = (done: number, all: number) => {
      expect(done).toBeGreaterThanOrEqual(last);
      expect(done).toBeLessThanOrEqual(all);
      last = done;
    };
    const bytes = 20_000 + 2 * MIB;
    expect(staging.local.has(staging.fileMap.find(large)!)).toBe(true);
    expect(await staging.scrub({ ...FAST, onProgress })).toEqual({
      localFiles: 22,
      localBytes: bytes + 500,
      slices: 21,
      sliceBytes: bytes,
      damaged: [],
    });
    expect(last).toBeGreaterThan(0);
  });

  test('a damaged slice is stored again from the copy on this disk', async () => {
    const { staging, store } = await openStaging(temporaryFolder());
    const bytes = randomBytes(1000);
    const key = await stageFile(staging, bytes);
    await stageFile(staging, randomBytes(1000));
    await staging.merging.flush();
    const [trunk] = store.files.values();
    trunk![trunk!.indexOf(bytes) + 5]! ^= 1;
    const before = fileIdOf(staging.fileMap.find(key)!);
    const { damaged } = await staging.scrub(FAST);
    expect(damaged).toMatchObject([{ key: formatKey(key), where: 'trunk', repaired: true }]);
    await staging.merging.flush();
    expect(fileIdOf(staging.fileMap.find(key)!)).not.toBe(before);
    expect((await staging.scrub(FAST)).damaged).toEqual([]);
  });
});

import { randomBytes } from 'node:crypto';
import { fileIdOf, formatKey } from '@stevedore/staging';
import { expect, test } from 'vitest';
import { MemoryTrunkStore } from '../../../support/memory-trunk-store.js';
import { openStaging, stageFile, stageTogether, until } from '../../../support/staging.js';
import { temporaryFolder } from '../../../support/temporary.js';

const TRUNK_BYTES = 2 ** 17;
const JOINING = {
  idMaxAge: 7 * 86_400_000,
  trunkSize: TRUNK_BYTES,
  retain: 0,
  segmentBytes: 2 ** 16,
  compactionBytesPerSecond: 2 ** 34,
  mergeMaxAge: 3_600_000,
};

async function openJoining(folder = temporaryFolder(), store = new MemoryTrunkStore()) {
  const opened = await openStaging(folder, JOINING, store);
  const contents = new Map<string, { key: Buffer; bytes: Buffer }>();
  const merged = new Map<string, string>();
  opened.staging.changes.on('merged', ({ key, fileId }) => merged.set(key, fileId));
  /** A few files of a slow site, merged because of their age. */
  const round = async (count = 3, group?: string) => {
    for (let index = 0; index < count; index += 1) {
      const bytes = randomBytes(1500 + ((contents.size * 37) % 1000));
      const key = await stageFile(opened.staging, bytes, group === undefined ? {} : { group });
      contents.set(formatKey(key), { key, bytes });
    }
    await opened.staging.merging.flush();
    // What is joined goes on in the background, until nothing more is to do.
    await opened.staging.compact();
    await opened.staging.merging.flush();
  };
  const expectAll = async () => {
    for (const { key, bytes } of contents.values()) {
      const row = opened.staging.fileMap.find(key)!;
      const local = await opened.staging.local.read(row);
      const { fileId, offset } = row.trunk ?? { fileId: '', offset: 0 };
      const found = local ?? (await store.read(fileId, offset, row.size));
      expect(found.equals(bytes)).toBe(true);
    }
  };
  return { ...opened, contents, merged, round, expectAll };
}

test('a slow site has few files in FastDFS, full ones, and an id that is given out stays', async () => {
  const { staging, store, contents, merged, round, expectAll, errors } = await openJoining();
  let uploaded = 0;
  let written = 0;
  staging.changes.on('trunk', ({ bytes }) => {
    written += bytes;
  });
  const given = new Map<string, string>();
  for (let minute = 0; minute < 50; minute += 1) {
    await round();
    for (const [key, fileId] of merged) {
      if (!given.has(key)) given.set(key, fileId);
      expect(fileIdOf(staging.fileMap.find(contents.get(key)!.key)!)).toBe(given.get(key));
    }
  }
  await staging.compact();
  await until(() => staging.stats().trunks === store.files.size);
  for (const { bytes } of contents.values()) uploaded += bytes.length;
  expect(store.files.size).toBeLessThanOrEqual(1.1 * (uploaded / TRUNK_BYTES) + 20);
  expect(written).toBeLessThanOrEqual(3.5 * uploaded);
  const full = staging.fileMap.trunksIn('confirmed').filter(({ size }) => size > 0.9 * TRUNK_BYTES);
  expect(full.length).toBeGreaterThan(1);
  for (const { size } of full) expect(size / TRUNK_BYTES).toBeGreaterThan(0.99);
  expect(given.size).toBe(full.reduce((sum, { files }) => sum + files, 0));
  await expectAll();
  expect(errors).toEqual([]);
});

test('no file of a thin trunk has an id, not even while its trunk is being confirmed', async () => {
  const { staging, contents, round } = await openJoining();
  const ids: (string | undefined)[] = [];
  const places: unknown[] = [];
  let isOver = false;
  const look = () => {
    if (isOver) return;
    for (const { key } of contents.values()) {
      const row = staging.fileMap.find(key)!;
      if (row.trunk) places.push(row.trunk);
      ids.push(fileIdOf(row));
    }
    setImmediate(look);
  };
  look();
  await round(20);
  isOver = true;
  expect(places.length).toBeGreaterThan(0);
  expect(ids.filter((id) => id !== undefined)).toEqual([]);
});

test('a process that ends in the midst of joining loses nothing, and the next goes on', async () => {
  const folder = temporaryFolder();
  const store = new MemoryTrunkStore();
  const first = await openJoining(folder, store);
  for (let minute = 0; minute < 18; minute += 1) await first.round();
  store.isAway = true;
  const bytes = randomBytes(2000);
  await stageFile(first.staging, bytes);
  const before = store.files.size;
  await first.staging.compact();
  await first.staging.close();
  expect(store.files.size).toBe(before);
  store.isAway = false;
  const second = await openStaging(folder, JOINING, store);
  await second.staging.merging.flush();
  for (const { key, bytes: expected } of first.contents.values()) {
    const row = second.staging.fileMap.find(key)!;
    const slice = await store.read(row.trunk!.fileId, row.trunk!.offset, row.size);
    expect(slice.equals(expected)).toBe(true);
  }
});

test('without joining, files of thin trunks have ids; switched off, they get them', async () => {
  const folder = temporaryFolder();
  const store = new MemoryTrunkStore();
  const first = await openJoining(folder, store);
  await first.round();
  const key = [...first.contents.values()][0]!.key;
  const row = first.staging.fileMap.find(key)!;
  expect(row.trunk).toMatchObject({ isThin: true });
  expect(fileIdOf(row)).toBeUndefined();
  await first.staging.close();
  const second = await openStaging(folder, { ...JOINING, idMaxAge: 0 }, store);
  expect(fileIdOf(second.staging.fileMap.find(key)!)).toBeDefined();
});

test('once all files are to have ids, those of a thin trunk are told, and it stays as it is', async () => {
  const { staging, store, merged } = await openJoining();
  const contents = Array.from({ length: 600 }, () => randomBytes(10));
  await stageTogether(staging, contents);
  await staging.merging.flush();
  const [thin] = staging.fileMap.thinTrunks();
  expect([thin!.files, merged.size]).toEqual([600, 0]);
  await staging.merging.finish(20_000);
  expect(staging.fileMap.thinTrunks()).toEqual([]);
  const ids = staging.fileMap
    .aliveIn(thin!.id, -1, 600)
    .map((row) => [formatKey(row.key), fileIdOf(row)]);
  expect(ids).toHaveLength(600);
  expect([...merged].sort()).toEqual(ids.sort());
  expect([...store.files.keys()]).toEqual([thin!.fileId]);
});

test('joined files go into one trunk, however slowly they are moved and however old they are', async () => {
  const { staging } = await openStaging(temporaryFolder(), {
    ...{ ...JOINING, trunkSize: 2 * TRUNK_BYTES },
    mergeMaxAge: 10,
    compactionBytesPerSecond: 2 ** 18,
  });
  const trunks: number[] = [];
  staging.changes.on('trunk', ({ files }) => trunks.push(files));
  for (let round = 0; round < 20; round += 1) {
    const contents = Array.from({ length: 10 }, () => randomBytes(500));
    await stageTogether(staging, contents);
    // A flush would wait for the joined trunk too.
    await until(() => trunks.length > round);
  }
  // A new file that comes meanwhile does not wait, and takes none of them with it.
  await until(() => staging.stats().waitingFiles > 0);
  await stageFile(staging, randomBytes(500));
  await until(() => trunks.some((files) => files >= 200));
  expect(trunks.filter((files) => files !== 10)).toEqual([1, 200]);
});

test('a trunk is thin if it was chosen from few files, although moved files wait, too', async () => {
  const { staging } = await openStaging(temporaryFolder(), { idMaxAge: 7 * 86_400_000 });
  const first = [];
  for (let file = 0; file < 16; file += 1) {
    first.push(await stageFile(staging, randomBytes(60_000)));
  }
  await staging.merging.flush();
  for (const key of first.slice(0, 9)) await staging.deletions.delete(key);
  await staging.compact();
  expect(staging.stats().waitingFiles).toBe(7);
  for (let file = 0; file < 12; file += 1) await stageFile(staging, randomBytes(60_000));
  const before = staging.fileMap.thinTrunks().map(({ id }) => id);
  let flushed: Promise<void> | undefined;
  await staging.files.whileMoving(async () => {
    const merged = new Promise((resolve) => staging.changes.once('trunk', resolve));
    flushed = staging.merging.flush();
    await merged;
  });
  const added = staging.fileMap.thinTrunks().filter(({ id }) => !before.includes(id));
  expect(added).toMatchObject([{ files: 12 }]);
  await flushed;
});

test('without joining no trunk is thin, even if the clock was set back', async () => {
  let aheadMs = 0;
  const now = () => Date.now() + aheadMs;
  const { staging } = await openStaging(temporaryFolder(), { idMaxAge: 0, now });
  const key = await stageFile(staging, randomBytes(1000));
  aheadMs = -86_400_000;
  await staging.merging.flush();
  expect(staging.fileMap.thinTrunks()).toEqual([]);
  expect(fileIdOf(staging.fileMap.find(key)!)).toBeDefined();
});

import { randomBytes } from 'node:crypto';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { fileIdOf, formatKey, type Staging } from '@stevedore/staging';
import { expect, test } from 'vitest';
import { MemoryTrunkStore } from '../../../support/memory-trunk-store.js';
import { turnBit } from '../../../support/rot.js';
import {
  forgetFileMap,
  openStaging,
  spoolFile,
  stageFile,
  until,
} from '../../../support/staging.js';
import { temporaryFolder } from '../../../support/temporary.js';

const CHECK = { repair: false };
const REPAIR = { repair: true };

/** A store whose process dies between the storing of a trunk and its record. */
async function dieBeforeRecord(folder: string, store: MemoryTrunkStore, files: readonly Buffer[]) {
  const first = await openStaging(folder, {}, store);
  store.beforeReply = () => {
    // Nothing more is heard of it.
    store.isAway = true;
    throw new Error('the reply was lost');
  };
  const keys: Buffer[] = [];
  for (const bytes of files) keys.push(await stageFile(first.staging, bytes));
  const flushing = first.staging.merging.flush();
  await until(() => store.files.size > 0 && first.errors.length > 1);
  await first.staging.close();
  await flushing;
  store.beforeReply = () => undefined;
  store.isAway = false;
  return keys;
}

/** The next trunks are stored, but nobody hears of it. */
function loseReplies(store: MemoryTrunkStore, count: number): void {
  let left = count;
  store.beforeReply = () => {
    left -= 1;
    if (left >= 0) throw new Error('the reply was lost');
  };
}

function bytesInStore(store: MemoryTrunkStore): number {
  return [...store.files.values()].reduce((sum, bytes) => sum + bytes.length, 0);
}

async function expectStored(staging: Staging, store: MemoryTrunkStore, key: Buffer, bytes: Buffer) {
  const row = staging.fileMap.find(key)!;
  const slice = store.files
    .get(row.trunk?.fileId ?? '')
    ?.subarray(row.trunk!.offset, row.trunk!.offset + row.size);
  expect(slice?.equals(bytes)).toBe(true);
}

test('a trunk that was stored and not recorded is adopted, not sent again', async () => {
  const folder = temporaryFolder();
  const store = new MemoryTrunkStore();
  const files = [randomBytes(3000), randomBytes(4000)];
  const keys = await dieBeforeRecord(folder, store, files);
  const [fileId] = store.files.keys();
  const { staging } = await openStaging(folder, {}, store);
  await until(() => staging.stats().orphans.adopted === 1);
  expect([...store.files.keys()]).toEqual([fileId]);
  for (const [index, key] of keys.entries()) {
    await expectStored(staging, store, key, files[index]!);
  }
  expect(staging.stats().trunks).toBe(1);
  const report = await staging.fsck(CHECK);
  expect(report).toMatchObject({ problems: [], orphans: [], openPlans: 0, orphanBytes: 0 });
  expect(report.storedBytes).toBe(bytesInStore(store));
});

/** A trunk that was stored and not recorded, and is not found by itself. */
async function openWithOrphan() {
  const folder = temporaryFolder();
  const store = new MemoryTrunkStore();
  const bodies = [randomBytes(3000), randomBytes(4000)];
  const keys = await dieBeforeRecord(folder, store, bodies);
  const [orphan] = store.files.keys() as IterableIterator<string>;
  store.beforeRead = () => {
    throw new Error('away');
  };
  const { staging } = await openStaging(folder, {}, store);
  const ids = new Map<string, string>();
  staging.changes.on('merged', ({ key, fileId }) => ids.set(key, fileId));
  const expectIds = () => {
    for (const key of keys) {
      expect(ids.get(formatKey(key))).toBe(fileIdOf(staging.fileMap.find(key)!));
    }
  };
  return { folder, bodies, staging, store, keys, orphan: orphan!, expectIds };
}

test('one whose files are being sent again is deleted', async () => {
  const { staging, store, orphan, expectIds } = await openWithOrphan();
  let release: (() => void) | undefined;
  store.beforeStore = () =>
    new Promise((resolve) => {
      release = resolve;
    });
  const flushing = staging.merging.flush();
  await until(() => release !== undefined);
  store.beforeRead = () => undefined;
  await staging.fsck(REPAIR);
  expect(store.files.has(orphan)).toBe(false);
  release!();
  await flushing;
  expectIds();
});

test('files of one that is adopted while a trunk is being chosen are not sent again', async () => {
  const { staging, store, keys, orphan, expectIds } = await openWithOrphan();
  const { files } = staging;
  const candidates = files.candidates.bind(files);
  files.candidates = async (...limits) => {
    files.candidates = candidates;
    const found = await candidates(...limits);
    store.beforeRead = () => undefined;
    await staging.fsck(REPAIR);
    return found;
  };
  await staging.merging.flush();
  keys.push(await stageFile(staging, randomBytes(500)));
  await staging.merging.flush();
  expect([...store.files.keys()]).toEqual([orphan, expect.anything()]);
  expectIds();
});

test.each([
  ['before it is found', false],
  ['and was found out by then', true],
])('of a file whose copy here was damaged %s, its bytes are staged again', async (_, isFound) => {
  const { folder, bodies, staging, store, keys, orphan } = await openWithOrphan();
  const [key, other] = keys as [Buffer, Buffer];
  turnBit(join(folder, 'container'), bodies[0]!);
  if (isFound) await staging.merging.flush();
  expect(staging.files.damaged).toBe(isFound ? 1 : 0);
  store.beforeRead = () => undefined;
  await staging.fsck(REPAIR);
  expect(store.files.has(orphan)).toBe(false);
  await staging.merging.flush();
  await expectStored(staging, store, key, bodies[0]!);
  await expectStored(staging, store, other, bodies[1]!);
  expect(staging.files.damaged).toBe(0);
  expect(await staging.fsck(CHECK)).toMatchObject({ problems: [], orphans: [] });
});

test('of a file that is damaged here and there nothing is staged', async () => {
  const { folder, bodies, staging, store, keys, orphan } = await openWithOrphan();
  turnBit(join(folder, 'container'), bodies[0]!);
  const stored = store.files.get(orphan)!;
  stored[stored.indexOf(bodies[0]!)]! ^= 1;
  store.beforeRead = () => undefined;
  await staging.fsck(REPAIR);
  await staging.merging.flush();
  expect(staging.files.damaged).toBe(1);
  expect(staging.fileMap.find(keys[0]!)?.trunk).toBeUndefined();
});

test('one whose files were sent again meanwhile is deleted, and the check says so', async () => {
  const folder = temporaryFolder();
  const store = new MemoryTrunkStore();
  const files = [randomBytes(3000), randomBytes(4000)];
  const keys = await dieBeforeRecord(folder, store, files);
  const [orphan] = store.files.keys();
  store.unlisted = ['a storage is away'];
  const hidden = store.files.get(orphan!)!;
  store.files.delete(orphan!);
  const { staging } = await openStaging(folder, {}, store);
  await staging.merging.flush();
  expect(staging.stats().orphans).toMatchObject({ found: 0, openPlans: 1 });
  store.files.set(orphan!, hidden);
  store.unlisted = [];
  const seen = await staging.fsck(CHECK);
  expect(seen.problems).toMatchObject([{ code: 'orphan', subject: orphan, repaired: false }]);
  expect(seen).toMatchObject({ orphanTrunks: 1, orphanBytes: hidden.length, openPlans: 1 });
  expect(seen.storedBytes).toBe(bytesInStore(store));
  const mended = await staging.fsck(REPAIR);
  expect(mended.problems).toMatchObject([{ code: 'orphan', subject: orphan, repaired: true }]);
  expect(mended.orphans).toMatchObject([{ fileId: orphan, fate: 'deleted' }]);
  expect(mended).toMatchObject({ orphanTrunks: 0, orphanBytes: 0, openPlans: 0 });
  expect(store.files.has(orphan!)).toBe(false);
  expect(mended.storedBytes).toBe(bytesInStore(store));
  for (const [index, key] of keys.entries()) {
    await expectStored(staging, store, key, files[index]!);
  }
});

test('one of whose files any was deleted is deleted too, and they stay deleted', async () => {
  const { staging, store, keys, orphan } = await openWithOrphan();
  await staging.deletions.delete(keys[0]!);
  store.beforeRead = () => undefined;
  await staging.fsck(REPAIR);
  expect(store.files.has(orphan)).toBe(false);
  expect(staging.fileMap.find(keys[0]!)).toBeUndefined();
  expect(staging.fileMap.find(keys[1]!)).toBeDefined();
});

test('a trunk that was sent twice, because a reply was lost, is stored once', async () => {
  const { staging, store } = await openStaging(temporaryFolder());
  loseReplies(store, 2);
  const bytes = randomBytes(5000);
  const key = await stageFile(staging, bytes);
  await staging.merging.flush();
  expect(store.files.size).toBe(3);
  expect(staging.stats().orphans.openPlans).toBe(1);
  const report = await staging.fsck(REPAIR);
  expect(report.orphans.map(({ fate }) => fate)).toEqual(['deleted', 'deleted']);
  expect([...store.files.keys()]).toEqual([staging.fileMap.find(key)!.trunk?.fileId]);
  await expectStored(staging, store, key, bytes);
  expect(staging.stats().orphans.openPlans).toBe(0);
});

test('of one that was stored twice the files are staged again that are damaged in the other', async () => {
  const { staging, store } = await openStaging(temporaryFolder(), {
    retain: 0,
    segmentBytes: 1000,
  });
  loseReplies(store, 1);
  const bytes = randomBytes(5000);
  const key = await stageFile(staging, bytes);
  await staging.merging.flush();
  const before = staging.fileMap.find(key)!.trunk!;
  await stageFile(staging, randomBytes(2000));
  await staging.merging.flush();
  await until(() => !staging.local.has(staging.fileMap.find(key)!));
  store.files.get(before.fileId)![before.offset + 9]! ^= 1;
  expect((await staging.scrub({ ...REPAIR, bytesPerSecond: 2 ** 30 })).damaged).toMatchObject([
    { repaired: false },
  ]);
  await staging.fsck(REPAIR);
  await staging.merging.flush();
  await expectStored(staging, store, key, bytes);
  expect(staging.fileMap.find(key)!.trunk!.fileId).not.toBe(before.fileId);
});

test('that a trunk may have been stored twice is known after the FileMap was lost', async () => {
  const folder = temporaryFolder();
  const store = new MemoryTrunkStore();
  const first = await openStaging(folder, {}, store);
  loseReplies(store, 1);
  const bytes = randomBytes(5000);
  const key = await stageFile(first.staging, bytes);
  await first.staging.merging.flush();
  await first.staging.close();
  forgetFileMap(folder);
  const { staging } = await openStaging(folder, {}, store);
  await until(() => staging.stats().orphans.deleted === 1);
  expect([...store.files.keys()]).toEqual([staging.fileMap.find(key)!.trunk?.fileId]);
  await expectStored(staging, store, key, bytes);
});

test('a plan is looked for even when the segments that told of it are gone', async () => {
  const folder = temporaryFolder();
  const store = new MemoryTrunkStore();
  await dieBeforeRecord(folder, store, [randomBytes(3000)]);
  const [orphan] = store.files.keys();
  const hidden = store.files.get(orphan!)!;
  store.files.delete(orphan!);
  store.unlisted = ['a storage is away'];
  const options = { retain: 0, segmentBytes: 1000 };
  const second = await openStaging(folder, options, store);
  await second.staging.merging.flush();
  for (let turn = 0; turn < 3; turn++) {
    await stageFile(second.staging, randomBytes(2000));
    await second.staging.merging.flush();
  }
  await second.staging.close();
  rmSync(join(folder, 'filemap.sqlite'));
  store.files.set(orphan!, hidden);
  store.unlisted = [];
  const { staging } = await openStaging(folder, options, store);
  await until(() => staging.stats().orphans.deleted === 1);
  expect(store.files.has(orphan!)).toBe(false);
  expect((await staging.fsck(CHECK)).problems).toEqual([]);
});

test('trunks of other containers are left alone', async () => {
  const store = new MemoryTrunkStore();
  const other = await openStaging(temporaryFolder(), {}, store);
  const key = await stageFile(other.staging, randomBytes(5000));
  await other.staging.merging.flush();
  const folder = temporaryFolder();
  await dieBeforeRecord(folder, store, [randomBytes(5000)]);
  const { staging } = await openStaging(folder, {}, store);
  const report = await staging.fsck(REPAIR);
  expect(report.orphans.length).toBeLessThanOrEqual(1);
  await staging.merging.flush();
  await staging.fsck(REPAIR);
  expect(store.files.has(other.staging.fileMap.find(key)!.trunk!.fileId)).toBe(true);
  expect((await other.staging.fsck(CHECK)).problems).toEqual([]);
});

test('a trunk that is being sent is not taken for an orphan', async () => {
  const { staging, store } = await openStaging(temporaryFolder());
  let fsck: ReturnType<Staging['fsck']> | undefined;
  store.beforeReply = () => {
    fsck = staging.fsck(REPAIR);
  };
  const key = await stageFile(staging, randomBytes(5000));
  await staging.merging.flush();
  expect((await fsck)?.orphans).toEqual([]);
  expect(store.files.has(staging.fileMap.find(key)!.trunk!.fileId)).toBe(true);
});

test('a second copy stands in for a recorded trunk that is lost', async () => {
  const { staging, store } = await openStaging(temporaryFolder());
  loseReplies(store, 1);
  const bytes = randomBytes(5000);
  const key = await stageFile(staging, bytes);
  await staging.merging.flush();
  store.files.delete(staging.fileMap.find(key)!.trunk!.fileId);
  const report = await staging.fsck(REPAIR);
  expect(report.orphans).toMatchObject([{ fate: 'adopted' }]);
  expect(report.problems).toMatchObject([{ code: 'orphan', repaired: true }]);
  await expectStored(staging, store, key, bytes);
  expect((await staging.fsck(CHECK)).problems).toEqual([]);
});

test('a copy of a large file is told of and left, for it may be another program’s', async () => {
  const folder = temporaryFolder();
  const store = new MemoryTrunkStore();
  const first = await openStaging(folder, {}, store);
  store.beforeReply = () => {
    store.isAway = true;
    throw new Error('the reply was lost');
  };
  const bytes = randomBytes(2 ** 20);
  const key = await spoolFile(first.staging, bytes);
  await until(() => store.files.size > 0 && first.errors.length > 1);
  await first.staging.close();
  store.beforeReply = () => undefined;
  store.isAway = false;
  const [copy] = store.files.keys();
  const { staging } = await openStaging(folder, {}, store);
  await staging.merging.flush();
  const possible = [{ fileId: copy, bytes: bytes.length, key: formatKey(key) }];
  expect(await staging.fsck(CHECK)).toMatchObject({ possibleOrphans: possible, openPlans: 1 });
  expect(await staging.fsck(REPAIR)).toMatchObject({ possibleOrphans: possible, openPlans: 0 });
  expect(store.files.size).toBe(2);
  expect(await staging.fsck(CHECK)).toMatchObject({ possibleOrphans: [], openPlans: 0 });
});

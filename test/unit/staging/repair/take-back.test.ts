import { randomBytes } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type DamageEvent, formatKey, type StagingOptions, StoreError } from '@stevedore/staging';
import { expect, test } from 'vitest';
import type { State } from '../../../../packages/staging/dist/state.js';
import { Retirement } from '../../../../packages/staging/dist/upkeep/compaction.js';
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

/** Files that are being moved and whose new copy rots: their old place in FastDFS is still there. */

const MIB = 2 ** 20;
const OPTIONS = { retain: 0, segmentBytes: 1000 };
const FAST = { repair: true, bytesPerSecond: 2 ** 30 };

/** A file whose slice was moved out of a trunk, and whose new copy is not what was stored. */
async function movedAndRotten(options: Partial<StagingOptions> = {}) {
  const folder = temporaryFolder();
  const container = join(folder, 'container');
  const { staging, store, errors } = await openStaging(folder, { ...OPTIONS, ...options });
  const damage: DamageEvent[] = [];
  staging.changes.on('damage', (event) => damage.push(event));
  const dead = await stageFile(staging, randomBytes(5000));
  const bytes = randomBytes(1000);
  const key = await stageFile(staging, bytes, { name: 'a.jpg' });
  await staging.merging.flush();
  const place = staging.fileMap.find(key)!;
  await stageFile(staging, randomBytes(2000));
  await staging.merging.flush();
  await until(() => !staging.local.has(staging.fileMap.find(key)!));
  store.isAway = true;
  await staging.deletions.delete(dead);
  await until(() => staging.fileMap.find(key)!.trunk === undefined);
  turnBit(container, bytes);
  const trunk = place.trunk!.fileId;
  const isBack = () => staging.fileMap.find(key)!.trunk?.fileId === trunk;
  return { folder, container, staging, store, errors, damage, bytes, key, place, isBack };
}

test('a read finds it where it was before, and its row is there again', async () => {
  const { staging, store, damage, bytes, key, place, isBack } = await movedAndRotten();
  expect(await staging.local.read(staging.fileMap.find(key)!)).toBeUndefined();
  expect(isBack()).toBe(true);
  const { trunk, name } = place;
  const local = { at: 'container' };
  expect(staging.fileMap.find(key)).toMatchObject({ trunk, name, local, was: [] });
  const slice = await store.read(trunk!.fileId, trunk!.offset, bytes.length);
  expect(slice.equals(bytes)).toBe(true);
  expect(damage).toMatchObject([{ key: formatKey(key), place: 'container' }]);
  expect(staging.stats()).toMatchObject({
    ...{ unpackableFiles: 0, waitingFiles: 0, mergedFiles: 2 },
    damage: { found: 1, repaired: 1, quarantined: 0 },
  });
  expect((await staging.fsck({ repair: false })).problems).toEqual([]);
  // The trunk is mostly dead as before: it is emptied again, this time to the end.
  store.isAway = false;
  expect(await staging.compact()).toBe(1);
  await staging.merging.flush();
  await staging.compact();
  expect(staging.fileMap.find(key)!.trunk?.fileId).not.toBe(place.trunk?.fileId);
  expect(store.files.has(place.trunk!.fileId)).toBe(false);
  expect((await staging.scrub(FAST)).damaged).toEqual([]);
  expect(staging.fileMap.forwarded(trunk!.fileId, trunk!.offset)?.key.equals(key)).toBe(true);
});

test('the Merge Task that meets it goes on with the others', async () => {
  const { staging, store, key, damage } = await movedAndRotten();
  const other = await stageFile(staging, randomBytes(500));
  store.isAway = false;
  await staging.merging.flush(AbortSignal.timeout(20_000));
  expect(staging.fileMap.find(other)!.trunk).toBeDefined();
  await until(() => staging.fileMap.find(key)!.trunk !== undefined);
  expect(damage).toHaveLength(1);
  expect(staging.stats()).toMatchObject({ unpackableFiles: 0, damage: { quarantined: 0 } });
});

test('the scrub finds it and puts it back', async () => {
  const { staging, key, isBack } = await movedAndRotten();
  const dry = await staging.scrub({ ...FAST, repair: false });
  expect(dry.damaged).toMatchObject([{ key: formatKey(key), repaired: false }]);
  await until(async () => isBack() || (await staging.scrub(FAST)).damaged[0]?.repaired === true);
  expect(isBack()).toBe(true);
  expect((await staging.scrub(FAST)).damaged).toEqual([]);
});

test.each([
  ['is gone', (store: MemoryTrunkStore) => store.files.clear()],
  [
    'has damaged it as well',
    (store: MemoryTrunkStore) => {
      store.rot = (part) => part.fill(0);
    },
  ],
])('the error stays where the trunk %s', async (_, harm) => {
  const { staging, store, key } = await movedAndRotten();
  harm(store);
  for (let round = 0; round < 2; round++) {
    await expect(staging.local.read(staging.fileMap.find(key)!)).rejects.toMatchObject({
      code: 'corrupt',
    });
    expect(await staging.scrub({ ...FAST, repair: true }).catch(() => 'away')).toBeDefined();
  }
  expect(staging.fileMap.find(key)).toMatchObject({ trunk: undefined });
  expect(staging.stats()).toMatchObject({ unpackableFiles: 1 });
});

test('while FastDFS is away a read may succeed later, and the check puts it back', async () => {
  const { staging, store, key, isBack } = await movedAndRotten();
  const { copiesOf } = store;
  store.copiesOf = () => {
    throw new StoreError('storage_unavailable', 'away', { retryable: true });
  };
  const read = () => staging.local.read(staging.fileMap.find(key)!);
  for (let round = 0; round < 2; round++)
    await expect(read()).rejects.toMatchObject({ code: 'storage_unavailable', retryable: true });
  store.copiesOf = copiesOf;
  const report = await staging.fsck({ repair: true });
  expect(report).toMatchObject({ damagedCopies: 0, problems: [] });
  expect(isBack()).toBe(true);
});

test('one that was set aside meanwhile is put back too, and leaves no file behind', async () => {
  const { staging, store, folder, container, key, place, isBack } = await movedAndRotten();
  const { copiesOf } = store;
  store.copiesOf = (fileId) => {
    if (fileId === place.trunk?.fileId) throw new StoreError('storage_unavailable', 'away');
    return copiesOf(fileId);
  };
  await expect(staging.local.read(staging.fileMap.find(key)!)).rejects.toThrow('away');
  const [oldest] = readdirSync(container);
  store.isAway = false;
  for (let round = 0; round < 4; round++) {
    await stageFile(staging, randomBytes(2000));
    await staging.merging.flush(AbortSignal.timeout(20_000));
  }
  await until(() => !readdirSync(container).includes(oldest!));
  await until(() => staging.fileMap.find(key)!.local.at === 'spool');
  store.copiesOf = copiesOf;
  expect(await staging.local.rollBackMove(key)).toBe(true);
  expect(isBack()).toBe(true);
  expect(staging.fileMap.find(key)).toMatchObject({
    local: { at: 'container' },
    trunk: { offset: place.trunk?.offset },
  });
  expect(readdirSync(join(folder, 'spool'))).toEqual([]);
  expect((await staging.fsck({ repair: false })).problems).toEqual([]);
});

test('a FileMap that is made anew comes to the same', async () => {
  const { staging, store, folder, key, place } = await movedAndRotten();
  expect(await staging.local.read(staging.fileMap.find(key)!)).toBeUndefined();
  // A later segment, whose header says that those bytes were acknowledged.
  for (let round = 0; round < 2; round++) await stageFile(staging, randomBytes(2000));
  await staging.close();
  forgetFileMap(folder);
  const anew = await openStaging(folder, OPTIONS, store);
  await until(() => anew.staging.fileMap.find(key)!.trunk?.fileId === place.trunk?.fileId);
  expect(anew.staging.stats().damage.quarantined).toBe(0);
});

test('a large file is put back where a storage has it sound', async () => {
  const [good, bad] = ['10.0.0.1:23000', '10.0.0.2:23000'] as const;
  const store = new MemoryTrunkStore();
  store.copiesOf = () => ({ holders: [bad, good], members: 2 });
  const folder = temporaryFolder();
  const spool = join(folder, 'spool');
  const { staging } = await openStaging(folder, OPTIONS, store);
  const bytes = randomBytes(2 * MIB);
  const key = await spoolFile(staging, bytes);
  await staging.merging.flush();
  await until(() => staging.fileMap.find(key)!.local.at === 'gone');
  const trunkFileId = staging.fileMap.find(key)!.trunk?.fileId;
  store.isAway = true;
  store.rot = (part, holder) => (holder === bad ? part.fill(0) : part);
  await staging.scrub(FAST);
  await until(() => staging.fileMap.find(key)!.trunk === undefined);
  expect(readFileSync(join(spool, key.toString('hex'))).equals(bytes)).toBe(true);
  turnBit(spool, bytes);
  staging.local.noteDamage(staging.fileMap.find(key)!, 'spool');
  await until(() => staging.fileMap.find(key)!.trunk?.fileId === trunkFileId);
  expect(staging.fileMap.find(key)).toMatchObject({ local: { at: 'gone' }, trunk: { offset: 0 } });
  await until(() => readdirSync(spool).length === 0);
  expect(staging.stats()).toMatchObject({ unpackableFiles: 0, spooledFiles: 0, mergedFiles: 1 });
});

test('a trunk that a file comes back to in the last moment is not given up', async () => {
  const trunk = { id: 1, taskId: Buffer.alloc(16), kind: 'trunk', fileId: 'group1/M00/a.merged' };
  const records: unknown[] = [];
  const retire = async (comesBack: boolean) => {
    let isBack = false;
    const fileMap = {
      deadTrunks: () => [{ ...trunk, size: 1, crc32: 1, files: 1, doubtfulSince: null }],
      hasUnsettledMoves: () => false,
      aliveIn: () => (isBack ? [{}] : []),
      trunksIn: () => [],
    };
    const alone = (work: () => Promise<void>) => {
      isBack = comesBack;
      return work();
    };
    const container = { append: async (added: readonly unknown[]) => records.push(...added) };
    const changes = { isOver: false };
    const state = { fileMap, container, alone, changes, trunkStore: {}, now: Date.now };
    await new Retirement(state as unknown as State).run();
  };
  await retire(true);
  expect(records).toHaveLength(0);
  await retire(false);
  expect(records).toHaveLength(1);
});

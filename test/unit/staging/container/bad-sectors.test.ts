import { randomBytes } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type DamageEvent, formatKey, type Staging, type StagingOptions } from '@stevedore/staging';
import { expect, test } from 'vitest';
import { BadSectors } from '../../../support/bad-sectors.js';
import {
  forgetFileMap,
  openStaging,
  spoolFile,
  stageFile,
  stageTogether,
  until,
} from '../../../support/staging.js';
import { temporaryFolder } from '../../../support/temporary.js';

/** Copies on this disk that cannot be read: told of like rot, and in nobody's way. */

const KIB = 1024;
const MIB = 2 ** 20;
const FAST = { repair: true, bytesPerSecond: 2 ** 30 };

async function open(options: Partial<StagingOptions> = {}) {
  const folder = temporaryFolder();
  const sectors = new BadSectors();
  const opened = await openStaging(folder, { disk: sectors.disk, ...options });
  const damage: DamageEvent[] = [];
  opened.staging.changes.on('damage', (event) => damage.push(event));
  return { ...opened, folder, sectors, damage, container: join(folder, 'container') };
}

function read(staging: Staging, key: Buffer): Promise<Buffer | undefined> {
  return staging.local.read(staging.fileMap.find(key)!);
}

function isMerged(staging: Staging, key: Buffer): boolean {
  return staging.fileMap.find(key)!.trunk !== undefined;
}

test('a waiting file that cannot be read is left out, told of once, and merged once it can be', async () => {
  const { staging, sectors, container, damage, errors } = await open();
  const bytes = randomBytes(3000);
  const others = [await stageFile(staging, randomBytes(100))];
  const key = await stageFile(staging, bytes);
  others.push(await stageFile(staging, randomBytes(100)));
  sectors.spoil(container, bytes, 1000, 1);
  await staging.merging.flush(AbortSignal.timeout(20_000));
  expect(others.map((other) => isMerged(staging, other))).toEqual([true, true]);
  expect(isMerged(staging, key)).toBe(false);
  await expect(read(staging, key)).rejects.toMatchObject({ code: 'corrupt' });
  expect(damage).toMatchObject([{ key: formatKey(key), place: 'container', storage: undefined }]);
  expect(staging.stats()).toMatchObject({
    unpackableFiles: 1,
    damage: { found: 1, quarantined: 1 },
  });
  expect(errors.some(({ message }) => message.includes('in the container are damaged'))).toBe(true);
  expect((await staging.scrub(FAST)).damaged).toMatchObject([
    { key: formatKey(key), where: 'container', repaired: false },
  ]);
  expect(await staging.fsck({ repair: true })).toMatchObject({ damagedCopies: 1, problems: [] });
  expect(damage).toHaveLength(1);

  sectors.heal();
  expect((await staging.scrub(FAST)).damaged).toEqual([]);
  expect((await read(staging, key))?.equals(bytes)).toBe(true);
  await staging.merging.flush(AbortSignal.timeout(20_000));
  expect(isMerged(staging, key)).toBe(true);
});

test('many of them at once stop no merging', async () => {
  const { staging, sectors, container, store } = await open({ trunkSize: 128 * KIB });
  const contents = Array.from({ length: 60 }, () => randomBytes(10 * KIB));
  await stageTogether(staging, contents);
  for (const bytes of contents.slice(0, 8)) sectors.spoil(container, bytes);
  for (const bytes of contents.slice(30, 34)) sectors.spoil(container, bytes, 5000, 1);
  await staging.merging.flush(AbortSignal.timeout(30_000));
  expect(staging.stats()).toMatchObject({ mergedFiles: 48, waitingFiles: 12, unpackableFiles: 12 });
  expect(store.files.size).toBeGreaterThan(3);
});

test('what the disk gives at another attempt is no damage', async () => {
  const { staging, sectors, container, damage } = await open();
  const bytes = randomBytes(3000);
  const key = await stageFile(staging, bytes);
  sectors.spoil(container, bytes);
  sectors.left = 2;
  expect((await read(staging, key))?.equals(bytes)).toBe(true);
  sectors.left = 3;
  await staging.merging.flush(AbortSignal.timeout(20_000));
  expect(isMerged(staging, key)).toBe(true);
  expect([damage, sectors.left]).toEqual([[], 0]);
});

test.each([
  ['the disk fails as a whole', 'EIO', true],
  ['the system is short of memory', 'ENOMEM', false],
])('no file is given up when %s', async (_, code, isGone) => {
  const { staging, sectors, container, damage } = await open();
  const bytes = randomBytes(3000);
  const large = randomBytes(2 * MIB);
  const key = await stageFile(staging, bytes);
  sectors.spoil(container, bytes);
  Object.assign(sectors, { code, isGone });
  await expect(read(staging, key)).rejects.toMatchObject({ code });
  const flushed = staging.merging.flush(AbortSignal.timeout(20_000));
  await until(() => staging.stats().sendRetries >= 2);
  expect((await staging.scrub(FAST)).damaged).toMatchObject([{ repaired: false }]);
  expect([damage, staging.stats().unpackableFiles]).toEqual([[], 0]);
  Object.assign(sectors, { isGone: false });
  sectors.heal();
  const other = await spoolFile(staging, large);
  await flushed;
  await staging.merging.flush(AbortSignal.timeout(20_000));
  expect([key, other].map((each) => isMerged(staging, each))).toEqual([true, true]);
});

test('a large file that waits and cannot be read is left out, and the others are sent', async () => {
  const { staging, sectors, folder, store, damage } = await open();
  store.isAway = true;
  const bytes = [1, 2, 3].map(() => randomBytes(2 * MIB));
  const keys: Buffer[] = [];
  for (const each of bytes) keys.push(await spoolFile(staging, each));
  sectors.spoil(join(folder, 'spool'), bytes[0]!, MIB, 512);
  sectors.spoil(join(folder, 'spool'), bytes[1]!, 0, 1);
  store.isAway = false;
  await staging.merging.flush(AbortSignal.timeout(20_000));
  expect(keys.map((key) => isMerged(staging, key))).toEqual([false, false, true]);
  expect(damage.map(({ place }) => place)).toEqual(['spool', 'spool']);
  sectors.heal();
  await staging.scrub(FAST);
  await staging.merging.flush(AbortSignal.timeout(20_000));
  expect(keys.map((key) => isMerged(staging, key))).toEqual([true, true, true]);
});

test('a merged file is read from FastDFS when its copy here cannot be', async () => {
  const { staging, sectors, container } = await open();
  const bytes = randomBytes(3000);
  const key = await stageFile(staging, bytes);
  await staging.merging.flush();
  sectors.spoil(container, bytes);
  expect(await read(staging, key)).toBeUndefined();
  await until(() => staging.stats().damage.repaired === 1);
  expect(staging.local.has(staging.fileMap.find(key)!)).toBe(false);
  expect((await staging.scrub(FAST)).damaged).toEqual([]);
});

test('it keeps its segment until the room is needed, then what can be read of it', async () => {
  const options = { retain: 0, segmentBytes: 1000, containerSize: 150 * KIB };
  const { staging, sectors, folder, container } = await open(options);
  const bytes = randomBytes(20 * KIB);
  const key = await stageFile(staging, bytes);
  const [oldest] = readdirSync(container);
  sectors.spoil(container, bytes, 10 * KIB, 1);
  const put = async () => {
    await stageFile(staging, randomBytes(20 * KIB));
    await staging.merging.flush(AbortSignal.timeout(20_000));
  };
  for (let round = 0; round < 3; round++) await put();
  expect(staging.stats().unpackableFiles).toBe(1);
  expect(readdirSync(container)).toContain(oldest);
  // What is needed is more than there is: nobody is refused.
  for (let round = 0; round < 8; round++) await put();
  await until(() => !readdirSync(container).includes(oldest!));
  expect(staging.fileMap.find(key)).toMatchObject({ local: { at: 'spool' }, trunk: undefined });
  expect(staging.local.has(staging.fileMap.find(key)!)).toBe(false);
  const kept = readFileSync(join(folder, 'spool', key.toString('hex')));
  const lost = [...kept.keys()].filter((at) => kept[at] !== bytes[at]);
  expect(lost.length).toBeGreaterThan(0);
  expect(lost.length).toBeLessThanOrEqual(4096);
  expect(lost.every((at) => kept[at] === 0)).toBe(true);
  expect(staging.stats()).toMatchObject({ unpackableFiles: 1, damage: { quarantined: 1 } });
});

test('a FileMap that is made anew knows it, and those behind it', async () => {
  const { staging, sectors, folder, container, store } = await open();
  const bytes = randomBytes(3000);
  const before = await stageFile(staging, randomBytes(100));
  const key = await stageFile(staging, bytes, { name: 'a.jpg' });
  const behind = await stageFile(staging, randomBytes(100));
  await staging.close();
  const second = await openStaging(folder, { disk: sectors.disk }, store);
  const newest = randomBytes(3000);
  await stageFile(second.staging, newest);
  await second.staging.close();
  forgetFileMap(folder);
  // The next segment's header says that these bytes were acknowledged ...
  sectors.spoil(container, bytes, 1, 10);
  // ... and of the newest one nothing does: nobody knows what is behind.
  sectors.spoil(container, newest, 1, 10);
  await expect(openStaging(folder, { disk: sectors.disk }, store)).rejects.toThrow('EIO');
  forgetFileMap(folder);
  sectors.heal();
  sectors.spoil(container, bytes, 1, 10);
  const anew = await openStaging(folder, { disk: sectors.disk }, store);
  expect(anew.staging.stats().damage.quarantined).toBe(1);
  expect(anew.staging.fileMap.find(key)).toMatchObject({ name: 'a.jpg', trunk: undefined });
  await anew.staging.merging.flush(AbortSignal.timeout(20_000));
  expect([before, behind].map((each) => isMerged(anew.staging, each))).toEqual([true, true]);
  await expect(read(anew.staging, key)).rejects.toMatchObject({ code: 'corrupt' });
});

import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { type DamageEvent, formatKey, type Staging } from '@stevedore/staging';
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

const FAST = { repair: true, bytesPerSecond: 2 ** 30 };
const MIB = 2 ** 20;

function damageOf(staging: Staging): DamageEvent[] {
  const events: DamageEvent[] = [];
  staging.changes.on('damage', (damage) => events.push(damage));
  return events;
}

test('an only copy that is damaged is not read again, in no later process either', async () => {
  const folder = temporaryFolder();
  const first = await openStaging(folder);
  const events = damageOf(first.staging);
  const bytes = randomBytes(1000);
  const key = await stageFile(first.staging, bytes);
  turnBit(join(folder, 'container'), bytes);
  const read = (staging: Staging) => staging.local.read(staging.fileMap.find(key)!);
  await expect(read(first.staging)).rejects.toMatchObject({ code: 'corrupt' });
  await expect(read(first.staging)).rejects.toMatchObject({ code: 'corrupt' });
  const damage = { key: formatKey(key), place: 'container', storage: undefined, fileId: undefined };
  expect(events).toEqual([damage]);
  expect(first.errors.map(({ message }) => message)).toEqual([
    `the bytes of ${formatKey(key)} in the container are damaged`,
  ]);
  expect(first.staging.stats().damage).toEqual({ found: 1, repaired: 0, quarantined: 1 });
  await first.staging.close();

  const { staging, store } = await openStaging(folder);
  expect(staging.stats().damage).toEqual({ found: 0, repaired: 0, quarantined: 1 });
  // Sound again, which only the scrub looks for.
  turnBit(join(folder, 'container'), bytes);
  await expect(read(staging)).rejects.toMatchObject({ code: 'corrupt' });
  const sound = await stageFile(staging, randomBytes(1000));
  await staging.merging.flush();
  expect(staging.fileMap.find(sound)?.trunk).toBeDefined();
  expect(staging.fileMap.find(key)?.trunk).toBeUndefined();
  expect((await staging.scrub(FAST)).damaged).toEqual([]);
  expect(staging.stats().damage.quarantined).toBe(0);
  expect((await read(staging))?.equals(bytes)).toBe(true);
  await staging.merging.flush();
  expect(staging.fileMap.find(key)?.trunk).toBeDefined();
  expect(store.files.size).toBe(2);
});

test('a damaged large file that waits is sent to nobody, and its deletion ends the matter', async () => {
  const folder = temporaryFolder();
  const { staging, store } = await openStaging(folder);
  store.isAway = true;
  const bytes = randomBytes(2 * MIB);
  const key = await spoolFile(staging, bytes);
  turnBit(join(folder, 'spool'), bytes);
  store.isAway = false;
  await staging.merging.flush();
  expect(store.files.size).toBe(0);
  expect(staging.stats()).toMatchObject({ unpackableFiles: 1, damage: { quarantined: 1 } });
  await staging.deletions.delete(key);
  expect(staging.stats()).toMatchObject({ unpackableFiles: 0, damage: { quarantined: 0 } });
  await staging.merging.flush();
});

test('a damaged copy of a merged file is given up once FastDFS has shown a sound one', async () => {
  const folder = temporaryFolder();
  const { staging } = await openStaging(folder);
  const bytes = randomBytes(1000);
  const key = await stageFile(staging, bytes);
  await staging.merging.flush();
  turnBit(join(folder, 'container'), bytes);
  expect(await staging.local.read(staging.fileMap.find(key)!)).toBeUndefined();
  await until(() => staging.stats().damage.repaired === 1);
  expect(staging.stats().damage).toEqual({ found: 1, repaired: 1, quarantined: 0 });
  expect(staging.local.has(staging.fileMap.find(key)!)).toBe(false);
});

test('a slice that one of two storages has damaged is stored again from the other', async () => {
  const store = new MemoryTrunkStore();
  store.copiesOf = () => ({ holders: ['10.0.0.1:23000', '10.0.0.2:23000'], members: 2 });
  const options = { retain: 0, segmentBytes: 1000 };
  const { staging } = await openStaging(temporaryFolder(), options, store);
  const bytes = randomBytes(1000);
  const key = await stageFile(staging, bytes);
  const other = await stageFile(staging, randomBytes(1000));
  await staging.merging.flush();
  await stageFile(staging, randomBytes(2000));
  await staging.merging.flush();
  await until(() => !staging.local.has(staging.fileMap.find(key)!));
  const before = staging.fileMap.find(key)!.trunk?.fileId;
  const events = damageOf(staging);
  store.rot = (part, holder) => {
    const at = part.indexOf(bytes.subarray(0, 50));
    if (holder === '10.0.0.2:23000' && at >= 0) part[at + 7]! ^= 1;
    return part;
  };
  const dry = await staging.scrub({ ...FAST, repair: false });
  expect(dry.damaged).toMatchObject([
    { key: formatKey(key), where: 'trunk', storage: '10.0.0.2:23000', repaired: false },
  ]);
  expect(events).toEqual([
    { key: formatKey(key), place: 'trunk', storage: '10.0.0.2:23000', fileId: before },
  ]);
  expect(staging.quarantine.holders(key)).toEqual(['10.0.0.2:23000']);
  expect(staging.quarantine.holders(other)).toEqual([]);
  expect((await staging.scrub(FAST)).damaged).toMatchObject([{ repaired: true }]);
  expect(staging.quarantine.holders(key)).toEqual([]);
  await staging.merging.flush();
  expect(staging.fileMap.find(key)!.trunk?.fileId).not.toBe(before);
  store.rot = (part) => part;
  expect((await staging.scrub(FAST)).damaged).toEqual([]);
});

test('the scrub in the background finds and mends, and goes on where it was stopped', async () => {
  const folder = temporaryFolder();
  const options = { scrubRate: 2 ** 30, scrubPauseMs: 1 };
  const first = await openStaging(folder);
  const bytes = randomBytes(1000);
  const key = await stageFile(first.staging, bytes);
  const large = await spoolFile(first.staging, randomBytes(3 * MIB));
  await first.staging.merging.flush();
  turnBit(join(folder, 'container'), bytes);
  await first.staging.close();
  const { staging } = await openStaging(folder, options, first.store);
  await until(() => staging.stats().scrub.walks === 1);
  expect(staging.stats().damage).toEqual({ found: 1, repaired: 1, quarantined: 0 });
  expect(staging.stats().scrub).toMatchObject({ files: 4 });
  expect(staging.local.has(staging.fileMap.find(key)!)).toBe(false);
  // What was stored without checksums of its blocks has them now.
  expect(staging.fileMap.blocks(large)).toHaveLength(12 * 4);
  expect((await staging.fsck({ repair: false })).problems).toEqual([]);
});

test.each(['damaged', 'lost'])(
  'a trunk with a file that is %s at every storage holds up no other compaction',
  async (how) => {
    const options = { retain: 0, segmentBytes: 1000 };
    const { staging, store } = await openStaging(temporaryFolder(), options);
    const trunks: { key: Buffer; bytes: Buffer }[] = [];
    for (let trunk = 0; trunk < 2; trunk++) {
      const dead = await stageFile(staging, randomBytes(5000));
      const bytes = randomBytes(1000);
      trunks.push({ key: await stageFile(staging, bytes), bytes });
      await staging.merging.flush();
      trunks.push({ key: dead, bytes: Buffer.alloc(0) });
    }
    await stageFile(staging, randomBytes(2000));
    await staging.merging.flush();
    await until(() => trunks.every(({ key }) => !staging.local.has(staging.fileMap.find(key)!)));
    const [stuck, , moving] = trunks;
    store.rot = (part) => {
      const at = part.indexOf(stuck!.bytes.subarray(0, 50));
      if (at >= 0) part[at + 7]! ^= 1;
      return part;
    };
    if (how === 'lost') store.files.delete(staging.fileMap.find(stuck!.key)!.trunk!.fileId!);
    const before = staging.fileMap.find(moving!.key)!.trunk?.fileId;
    await staging.deletions.delete(trunks[1]!.key);
    await staging.deletions.delete(trunks[3]!.key);
    await staging.compact();
    await staging.merging.flush();
    await until(() => staging.fileMap.find(moving!.key)!.trunk?.fileId !== before);
    expect(staging.fileMap.find(stuck!.key)?.trunk).toBeDefined();
  },
);

test.each([
  ['this disk', {}],
  ['another storage', { retain: 0, segmentBytes: 1000 }],
])(
  'a large file that one of two storages has damaged is stored again from %s',
  async (_, options) => {
    const folder = temporaryFolder();
    const store = new MemoryTrunkStore();
    store.copiesOf = () => ({ holders: ['10.0.0.1:23000', '10.0.0.2:23000'], members: 2 });
    const first = await openStaging(folder, options, store);
    const { staging } = first;
    const bytes = randomBytes(3 * MIB);
    const key = await spoolFile(staging, bytes);
    await staging.merging.flush();
    await stageFile(staging, randomBytes(2000));
    await staging.merging.flush();
    const before = staging.fileMap.find(key)!;
    if ('retain' in options) await until(() => !staging.local.has(staging.fileMap.find(key)!));
    store.rot = (part, holder) => {
      const at = part.indexOf(bytes.subarray(0, 50));
      if (holder === '10.0.0.2:23000' && at >= 0) part[at + 7]! ^= 1;
      return part;
    };
    expect((await staging.scrub(FAST)).damaged).toMatchObject([
      { key: formatKey(key), where: 'trunk', storage: '10.0.0.2:23000', repaired: true },
    ]);
    store.rot = (part) => part;
    expect(staging.quarantine.holders(key)).toEqual([]);
    await staging.merging.flush();
    await until(() => !store.files.has(before.trunk!.fileId));
    const after = staging.fileMap.find(key)!;
    expect(after.trunk?.fileId).not.toBe(before.trunk?.fileId);
    expect(store.files.get(after.trunk!.fileId)?.equals(bytes)).toBe(true);
    expect(staging.fileMap.forwarded(before.trunk!.fileId, 0)?.key.equals(key)).toBe(true);
    expect((await staging.scrub(FAST)).damaged).toEqual([]);
    expect((await staging.fsck({ repair: false })).problems).toEqual([]);
    await staging.close();

    // The same from the records alone.
    forgetFileMap(folder);
    const again = await openStaging(folder, options, store);
    expect(again.staging.fileMap.find(key)).toMatchObject({
      trunk: { fileId: after.trunk?.fileId },
      size: 3 * MIB,
    });
    expect(again.staging.fileMap.forwarded(before.trunk!.fileId, 0)?.key.equals(key)).toBe(true);
    await again.staging.deletions.delete(key);
    await until(() => store.files.size === 1);
  },
);

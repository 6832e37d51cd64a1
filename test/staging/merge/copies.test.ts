import { randomBytes } from 'node:crypto';
import type { StagingOptions } from '@stevedore/staging';
import { expect, test } from 'vitest';
import { MemoryTrunkStore } from '../../support/memory-trunk-store.js';
import { openStaging, spoolFile, stageFile, until } from '../../support/staging.js';
import { temporaryFolder } from '../../support/temporary.js';

/** Nothing is kept that may go. */
const GREEDY = { retain: 0, segmentBytes: 1000 };

function storeOf(members: number): MemoryTrunkStore & { holders: string[] } {
  const store = Object.assign(new MemoryTrunkStore(), { holders: ['a:1'] });
  store.copiesOf = () => ({ holders: store.holders, members });
  return store;
}

async function fill(options: Partial<StagingOptions>, store: MemoryTrunkStore) {
  const opened = await openStaging(temporaryFolder(), { ...GREEDY, ...options }, store);
  const { staging } = opened;
  const keys = [await stageFile(staging, randomBytes(2000))];
  keys.push(await spoolFile(staging, randomBytes(2 ** 20)));
  await staging.merging.flush();
  // The newest segment stays in any case.
  keys.push(await stageFile(staging, randomBytes(2000)));
  return { ...opened, keys: keys.slice(0, 2) };
}

function areLocal({ staging, keys }: Awaited<ReturnType<typeof fill>>): boolean[] {
  return keys.map((key) => staging.local.has(staging.fileMap.find(key)!));
}

test('in a group of one, a stored trunk lets the copies on this disk go', async () => {
  const filled = await fill({}, storeOf(1));
  await until(() => !areLocal(filled).includes(true));
  expect(filled.staging.stats().unconfirmedTrunks).toBe(0);
});

test('in a larger group they stay until a second storage has the trunk', async () => {
  const store = storeOf(3);
  const filled = await fill({}, store);
  let asked = 0;
  store.copiesOf = () => {
    asked += 1;
    return { holders: store.holders, members: 3 };
  };
  await until(() => asked >= 4);
  expect(areLocal(filled)).toEqual([true, true]);
  expect(filled.staging.stats().unconfirmedTrunks).toBe(2);
  expect((await filled.staging.fsck({ repair: false })).unconfirmedTrunks).toBe(2);
  store.holders.push('b:1');
  await until(() => !areLocal(filled).includes(true));
  expect(filled.errors).toEqual([]);
});

test('a group that does not answer holds up no other, and is asked once a round', async () => {
  const store = storeOf(2);
  store.holders.push('b:1');
  store.groupOf = (bytes) => (bytes < 2 ** 20 ? 'answers' : 'silent');
  const silent = (): never => {
    throw new Error('no storage of the group answers');
  };
  store.copiesOf = silent;
  const filled = await fill({}, store);
  const { staging, errors } = filled;
  await spoolFile(staging, randomBytes(2 ** 20));
  await staging.merging.flush();
  const [first] = staging.fileMap.uncopiedTrunks(0, 4);
  expect(staging.stats().unconfirmedTrunks).toBe(4);
  expect(first!.fileId).toContain('silent/');
  const asked: string[] = [];
  store.copiesOf = (fileId) => {
    asked.push(fileId);
    return fileId.startsWith('silent/') ? silent() : { holders: store.holders, members: 2 };
  };
  await until(() => staging.stats().unconfirmedTrunks === 2);
  await until(() => asked.length >= 4);
  expect(new Set(asked.filter((fileId) => fileId.startsWith('silent/')))).toEqual(
    new Set([first!.fileId]),
  );
  expect(errors[0]!.message).toContain('no storage of the group answers');
});

test('one copy is enough where one is asked for, and nobody is asked', async () => {
  const store = storeOf(3);
  store.copiesOf = () => {
    throw new Error('nobody should ask');
  };
  const filled = await fill({ confirmCopies: 1 }, store);
  await until(() => !areLocal(filled).includes(true));
  expect(filled.errors).toEqual([]);
});

test('more copies than the group can have keep everything here, and that is told once', async () => {
  const store = storeOf(2);
  store.holders.push('b:1');
  const filled = await fill({ confirmCopies: 3 }, store);
  await until(() => filled.errors.length > 0);
  expect(filled.errors[0]!.message).toContain('lower confirmCopies');
  expect(areLocal(filled)).toEqual([true, true]);
});

test('that copies are missing is not forgotten by a restart', async () => {
  const folder = temporaryFolder();
  const store = storeOf(2);
  const first = await openStaging(folder, GREEDY, store);
  const key = await stageFile(first.staging, randomBytes(2000));
  await first.staging.merging.flush();
  await first.staging.close();
  const { staging } = await openStaging(folder, GREEDY, store);
  await stageFile(staging, randomBytes(2000));
  expect(staging.local.has(staging.fileMap.find(key)!)).toBe(true);
  store.holders.push('b:1');
  await until(() => !staging.local.has(staging.fileMap.find(key)!));
});

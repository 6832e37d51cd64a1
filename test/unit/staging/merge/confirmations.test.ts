import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import type { StagingOptions } from '@stevedore/staging';
import { expect, test } from 'vitest';
import { Changes } from '../../../../packages/staging/dist/changes.js';
import { Confirmations } from '../../../../packages/staging/dist/merge/confirmations.js';
import type { State } from '../../../../packages/staging/dist/state.js';
import { MemoryTrunkStore } from '../../../support/memory-trunk-store.js';
import { openStaging, spoolFile, stageFile, until } from '../../../support/staging.js';
import { temporaryFolder } from '../../../support/temporary.js';

/** Nothing is kept that may go. */
const GREEDY = { retain: 0, segmentBytes: 1000 };

function storeOf(members: number) {
  const store = Object.assign(new MemoryTrunkStore(), { holders: ['a:1'], asked: 0 });
  store.copiesOf = () => {
    store.asked += 1;
    return { holders: store.holders, members };
  };
  return store;
}

async function fill(options: Partial<StagingOptions>, store: ReturnType<typeof storeOf>) {
  const opened = await openStaging(temporaryFolder(), { ...GREEDY, ...options }, store);
  const { staging } = opened;
  const keys = [await stageFile(staging, randomBytes(2000))];
  keys.push(await spoolFile(staging, randomBytes(2 ** 20)));
  await staging.merging.flush();
  // The newest segment stays in any case.
  keys.push(await stageFile(staging, randomBytes(2000)));
  store.asked = 0;
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
  await until(() => store.asked >= 4);
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

test('in a group none of whose storages is active they stay', async () => {
  const store = storeOf(0);
  store.holders.pop();
  const filled = await fill({}, store);
  await until(() => store.asked >= 4);
  expect(areLocal(filled)).toEqual([true, true]);
});

test('each of many trunks is asked about in one round, and those that lack copies hold up none', async () => {
  const left = new Set(Array.from({ length: 250 }, (_, id) => id + 1));
  const fileMap = {
    uncopiedTrunks: (after: number, limit: number) =>
      [...left]
        .filter((id) => id > after)
        .slice(0, limit)
        .map((id) => ({ id, fileId: `group1/${id}` })),
    countUncopied: () => left.size,
    setCopied: (_now: number, id: number) => left.delete(id),
  };
  const trunkStore = {
    replicas: async (fileId: string) => ({
      holders: fileId === 'group1/250' ? ['a:1', 'b:1'] : ['a:1'],
      members: 2,
    }),
  };
  const changes = new Changes();
  const state = { changes, fileMap, trunkStore, options: {}, now: Date.now };
  const confirmations = new Confirmations(state as unknown as State);
  const isFound = once(changes, 'removable');
  confirmations.start();
  await isFound;
  changes.end();
  await confirmations.ended();
  expect(left.size).toBe(249);
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
  await until(() => store.asked >= 4);
  expect(filled.errors.map(({ message }) => message)).toEqual([
    expect.stringContaining('lower confirmCopies'),
  ]);
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

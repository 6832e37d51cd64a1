import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { connect } from '@stevedore/client/connect';
import { describe, expect, test } from 'vitest';
import { readLocalKey } from '../../../gateway/dist/access/local-key.js';
import { deployedPair } from '../../support/deployment.js';
import { soon } from '../../support/soon.js';
import { openStaging, stageFile, until } from '../../support/staging.js';
import { type Opened, openGateway, openStore } from '../../support/store.js';
import { ofTest, temporaryFolder } from '../../support/temporary.js';

/** A file that was made of another one: never taken for what was uploaded. */

const notFound = { code: 'not_found' };

const KINDS = [
  async (): Promise<Opened> => {
    const store = await openStore();
    return { store, behind: store };
  },
  async (): Promise<Opened> => {
    const directory = temporaryFolder();
    const gateway = await openGateway({ directory });
    const store = connect({ url: gateway.url, apiKey: (await readLocalKey(directory))! });
    ofTest(() => store.close());
    return { store, behind: gateway.store };
  },
];

describe.each(KINDS)('derived files', (opened) => {
  test('are in no listing, group or count unless asked for, and go with their original', async () => {
    const { store, behind } = await opened();
    const expiresAt = new Date(Date.now() + 3_600_000);
    const jpeg = { name: 'a.jpg', type: 'image/jpeg', group: 'g', expiresAt };
    const { key } = await store.put('original', jpeg);
    const alone = await store.put('alone', { name: 'b.jpg', type: 'image/jpeg' });
    const small = { name: 'a.webp', type: 'image/webp', group: 'g', pictureOf: key };
    const first = await store.put('small', small);
    const own = { ...small, pictureOf: alone.key, group: alone.key };
    const second = await store.put('small', own);
    expect(await store.stat(first.key)).toMatchObject({ pictureOf: key, group: 'g', expiresAt });
    const keysOf = async (options: object) =>
      (await store.list(options)).files.map((file) => file.key);
    for (const merged of [false, true]) {
      if (merged) await behind.flush();
      const all = { type: 'image/*' };
      expect(await keysOf(all)).toEqual([key, alone.key]);
      expect(await keysOf({ group: 'g', order: 'newest' })).toEqual([key]);
      const made = await keysOf({ ...all, derived: true });
      expect(made.toSorted()).toEqual([key, alone.key, first.key, second.key].toSorted());
      expect((await keysOf({ group: 'g', derived: true })).toSorted()).toEqual(
        [key, first.key].toSorted(),
      );
      expect((await store.groups()).groups).toEqual(['g']);
      const { stagedFiles, mergedFiles, derivedFiles, derivedBytes } = behind.stats();
      expect([stagedFiles, mergedFiles]).toEqual(merged ? [0, 2] : [2, 0]);
      expect([derivedFiles, derivedBytes]).toEqual([2, 10]);
    }
    expect(behind.stats().acknowledgedFiles).toBe(2);
    await store.delete(await behind.settled(key));
    await expect(store.get(first.key)).rejects.toMatchObject(notFound);
    expect(String(await (await store.get(second.key)).bytes())).toBe('small');
    const { stagedFiles, mergedFiles, derivedFiles } = behind.stats();
    expect([stagedFiles + mergedFiles, derivedFiles]).toEqual([1, 1]);
  });

  test('are made of a file that is there, also when they are complete', async () => {
    const { store, behind } = await opened();
    const { key } = await store.put('original');
    const body = Readable.from(
      (async function* () {
        yield Buffer.from('made of it');
        await behind.delete(key);
      })(),
    );
    await expect(store.put(body, { pictureOf: key })).rejects.toMatchObject(notFound);
    await expect(store.put('x', { pictureOf: key })).rejects.toMatchObject(notFound);
    expect((await store.list({ derived: true })).files).toEqual([]);
    expect(behind.stats()).toMatchObject({ stagedFiles: 0, derivedFiles: 0 });
    for (let turns = 0; turns < 20; turns += 1) {
      const original = await store.put('original');
      const making = store.put('x', { pictureOf: original.key }).catch(() => undefined);
      for (let turn = 0; turn < turns; turn += 1) await nextTurn();
      await behind.delete(original.key);
      await making;
      expect(behind.stats().derivedFiles, `${turns} turns later`).toBe(0);
    }
  });
});

test('what a deletion has left behind, as of a process that was killed, goes at the next start', async () => {
  const directory = temporaryFolder();
  const { staging } = await openStaging(directory);
  const kept = await stageFile(staging, Buffer.from('original'));
  const elsewhere = Buffer.from(kept);
  elsewhere.writeUInt16BE(staging.origin ^ 1, 6);
  for (const pictureOf of [kept, staging.keys.next(), elsewhere]) {
    await stageFile(staging, Buffer.from('x'), { pictureOf });
  }
  await staging.close();
  const store = await openStore({ directory });
  await until(() => store.stats().derivedFiles === 2);
  const { files } = await store.list({ derived: true });
  const left = files.map(({ pictureOf }) => pictureOf);
  expect(left).toEqual([undefined, files[0]!.key, elsewhere.toString('base64url')]);
});

test('all derived files together have a bound: the oldest go first', async () => {
  const directory = temporaryFolder();
  const store = await openStore({ directory, derivedSize: '1MiB', smallFileLimit: '512KiB' });
  const { key } = await store.put('original');
  const put = async (bytes: number) =>
    (await store.put(Buffer.alloc(bytes, 'x'), { pictureOf: key })).key;
  const made: string[] = [];
  for (let count = 0; count < 5; count += 1) made.push(await put(200_000));
  await store.flush();
  const last = await Promise.all([put(300_000), put(300_000)]);
  expect(store.stats().derivedBytes).toBeLessThanOrEqual(2 ** 20);
  const { files } = await store.list({ derived: true });
  // The last two may be of one millisecond.
  const left = new Set([key, ...made.slice(3), ...last]);
  expect(new Set(files.map((file) => file.key))).toEqual(left);
  await expect(put(2 ** 20 + 1)).rejects.toMatchObject({ code: 'too_large' });
  expect(readdirSync(join(directory, 'spool'))).toEqual([]);
  expect((await store.get(key)).size).toBe(8);
});

test('what another gateway deletes takes along what was made of it here', async () => {
  const { first, second } = await deployedPair();
  const [staged, merged] = [await first.store.put('staged'), await first.store.put('merged')];
  const derived = [staged, merged].map(({ key }) =>
    soon(() => second.store.put('made there', { pictureOf: key })),
  );
  const made = await Promise.all(derived);
  await first.store.flush();
  await soon(async () => expect((await second.store.stat(merged.key)).state).toBe('merged'));
  await soon(async () => {
    const file = await first.store.stat(made[1]!.key);
    expect(file.pictureOf).toBe(merged.key);
  });
  for (const { key } of [staged, merged]) await first.store.delete(key);
  await soon(async () => expect(second.store.stats().derivedFiles).toBe(0));
  await expect(second.store.put('late', { pictureOf: staged.key })).rejects.toMatchObject(notFound);
});

import { type AdoptedTrunk, aboutOf, readAbout, type Staging } from '@stevedore/staging';
import { expect, it } from 'vitest';
import type { MemoryTrunkStore } from '../../../support/memory-trunk-store.js';
import { forgetFileMap, openStaging, spoolFile, stageFile } from '../../../support/staging.js';
import { temporaryFolder } from '../../../support/temporary.js';

/** Trunks of a container that is gone become those of another one. */

interface Lost {
  readonly store: MemoryTrunkStore;
  readonly kept: readonly Buffer[];
  readonly gone: readonly Buffer[];
  readonly large: Buffer;
  readonly trunks: readonly AdoptedTrunk[];
}

const LARGE = Buffer.alloc(5 * 2 ** 20, 7);

async function lost(): Promise<Lost> {
  const { staging, store } = await openStaging(temporaryFolder());
  const keys: Buffer[] = [];
  for (let n = 0; n < 10; n++) keys.push(await stageFile(staging, Buffer.alloc(1000, n)));
  const large = await spoolFile(staging, LARGE);
  await staging.merging.flush();
  const gone = keys.slice(0, 4);
  for (const key of gone) await staging.deletions.delete(key);
  const trunks = staging.fileMap.trunksIn('confirmed').map((trunk): AdoptedTrunk => {
    const { taskId, kind, fileId, size, crc32 } = trunk;
    const row = staging.fileMap.findInTrunk(trunk.id, 0);
    const file = kind === 'whole' ? { ...readAbout(aboutOf(row!)), key: row!.key } : undefined;
    return { taskId, kind, fileId: fileId!, size, crc32: crc32!, ...(file && { file }) };
  });
  await staging.close();
  return { store, kept: keys.slice(4), gone, large, trunks };
}

async function* pages(keys: readonly Buffer[]) {
  yield keys;
}

const adopted = ({ trunks, gone }: Lost) => ({ trunks, deleted: pages(gone), unwanted: [] });

/** Resolves once their directories have been read. */
async function read(staging: Staging): Promise<void> {
  while (!staging.rebuild.isComplete) await new Promise((resolve) => setImmediate(resolve));
}

function expectAll(staging: Staging, { kept, gone, large }: Lost): void {
  for (const key of [...kept, large]) expect(staging.fileMap.find(key)?.trunk).toBeDefined();
  for (const key of gone) {
    expect(staging.fileMap.find(key)).toBeUndefined();
    expect(staging.fileMap.isDeleted(key)).toBe(true);
  }
  expect(staging.stats()).toMatchObject({ mergedFiles: 7, mergedBytes: 6000 + LARGE.length });
}

it('the files are its own, the deleted ones stay deleted, however often it is done', async () => {
  const gone = await lost();
  const directory = temporaryFolder();
  const { staging } = await openStaging(directory, {}, gone.store);
  for (let times = 0; times < 2; times++) {
    await staging.adopt(adopted(gone));
    await read(staging);
    expectAll(staging, gone);
  }
  expect(staging.fileMap.countTrunks()).toBe(2);
  const report = await staging.fsck({ repair: false });
  expect(report.problems).toEqual([]);
  await staging.close();
  // The records alone bring it back.
  forgetFileMap(directory);
  const again = await openStaging(directory, { rebuildsFirst: true }, gone.store);
  await read(again.staging);
  expectAll(again.staging, gone);
});

it('compacts their trunks, and removes what nobody needs', async () => {
  const gone = await lost();
  const { staging, store } = await openStaging(temporaryFolder(), {}, gone.store);
  await staging.adopt({ ...adopted(gone), unwanted: ['group1/M00/00/00/unwanted'] });
  await read(staging);
  for (const key of gone.kept.slice(0, 3)) await staging.deletions.delete(key);
  await staging.compact();
  await staging.merging.flush();
  await staging.compact();
  const first = gone.trunks.find(({ kind }) => kind === 'trunk')!;
  expect(store.files.has(first.fileId)).toBe(false);
  for (const key of gone.kept.slice(3)) {
    const { fileId } = staging.fileMap.find(key)!.trunk!;
    expect(fileId).not.toBe(first.fileId);
    expect(store.files.has(fileId)).toBe(true);
  }
  await staging.fsck({ repair: true });
  expect(store.removed).toContain('group1/M00/00/00/unwanted');
});

it('an adoption that is cut short is made again', async () => {
  const gone = await lost();
  const directory = temporaryFolder();
  const first = await openStaging(directory, {}, gone.store);
  const failing = async function* () {
    yield gone.gone.slice(0, 2);
    throw new Error('cut');
  };
  const cut = first.staging.adopt({ ...adopted(gone), deleted: failing() });
  await expect(cut).rejects.toThrow('cut');
  expect(first.staging.fileMap.countTrunks()).toBe(0);
  await first.staging.close();
  const { staging } = await openStaging(directory, {}, gone.store);
  await staging.adopt(adopted(gone));
  await read(staging);
  expectAll(staging, gone);
});

it('a trunk that FastDFS does not give yet is read later', async () => {
  const gone = await lost();
  const { staging } = await openStaging(temporaryFolder(), {}, gone.store);
  const all = new Map(gone.store.files);
  const whole = gone.trunks.find(({ kind }) => kind === 'trunk')!.fileId;
  gone.store.files.delete(whole);
  await staging.adopt(adopted(gone));
  while (staging.rebuild.isWaiting) await new Promise((resolve) => setImmediate(resolve));
  expect(staging.rebuild.isComplete).toBe(false);
  gone.store.files.set(whole, all.get(whole)!);
  // What is added wakes it.
  staging.rebuild.add(staging.fileMap.trunksIn('missing'));
  await read(staging);
  expectAll(staging, gone);
});

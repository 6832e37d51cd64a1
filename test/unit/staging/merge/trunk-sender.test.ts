import { randomBytes } from 'node:crypto';
import { readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { encodeFields, encodePath, encodeTail, normalSizeField } from '@stevedore/protocol';
import { formatKey, type Staging, type StagingOptions } from '@stevedore/staging';
import { describe, expect, test } from 'vitest';
import { MemoryTrunkStore } from '../../../support/memory-trunk-store.js';
import { turnBit } from '../../../support/rot.js';
import {
  forgetFileMap,
  openStaging,
  spoolFile,
  stageFile,
  stageTogether,
  until,
} from '../../../support/staging.js';
import { temporaryFolder } from '../../../support/temporary.js';
import { watchedDisk } from '../../../support/watched-disk.js';

const KIB = 1024;
const MIB = 2 ** 20;
const QUIET = { findsOrphans: false };

/** FastDFS stores what it is sent wrongly, or says so, as often as there are lies. */
class Liar extends MemoryTrunkStore {
  readonly lies: ((id: string, bytes: Buffer) => string)[] = [];
  cannotRemove = false;

  override async store(...request: Parameters<MemoryTrunkStore['store']>): Promise<string> {
    const id = await super.store(...request);
    const lie = this.lies.shift();
    if (!lie) return id;
    const bytes = this.files.get(id)!;
    this.files.delete(id);
    const told = lie(id, bytes);
    this.files.set(told, bytes);
    return told;
  }

  override async remove(fileId: string): Promise<void> {
    if (this.cannotRemove) throw new Error('it cannot be removed');
    await super.remove(fileId);
  }
}

/** An id of these bytes, with other fields than FastDFS would give it. */
function idOf({ size = 0, crc32 = 0, tail = encodeTail('merged', '1234567') }): string {
  const source = '10.1.2.3';
  const about = { source, createdAtSeconds: 1, sizeField: normalSizeField(size, 1), crc32 };
  return `group1/${encodePath(0, 0, 0)}${encodeFields(about)}${tail}`;
}

async function openLiar() {
  const store = new Liar();
  const opened = await openStaging(temporaryFolder(), QUIET, store);
  const told: string[] = [];
  opened.staging.changes.on('error', ({ message }) => told.push(message));
  return { ...opened, store, told };
}

describe('what FastDFS stored wrongly', () => {
  test.each([
    ['has a malformed id', () => 'group1/nonsense', 'the id is malformed'],
    [
      'has another size',
      (_: string, bytes: Buffer) => idOf({ size: bytes.length + 1 }),
      /\d+ bytes instead of \d+/,
    ],
    [
      'has another CRC-32',
      (_: string, bytes: Buffer) => idOf({ size: bytes.length, crc32: 7 }),
      /CRC-32 7 instead of \d+/,
    ],
    [
      'can carry no slice ids',
      (id: string) => `${id.slice(0, -'.merged'.length)}.jpg`,
      'no slice ids can be made from the id',
    ],
  ])('%s: it is deleted, and sent again', async (_, lie, why) => {
    const { staging, store, told } = await openLiar();
    store.lies.push(lie);
    const key = await stageFile(staging, randomBytes(500));
    await staging.merging.flush();
    expect(told).toHaveLength(1);
    expect(told[0]).toMatch(why);
    expect(told[0]).toContain('wrongly');
    expect(told[0]).toContain('; it was deleted, and sent again');
    expect(store.removed).toHaveLength(1);
    expect([...store.files.keys()]).toEqual([staging.fileMap.find(key)!.trunk!.fileId]);
    expect(staging.fileMap.unwanted()).toEqual([]);
  });

  test('and cannot be deleted is deleted later', async () => {
    const { staging, store, told } = await openLiar();
    const wrong = idOf({ size: 1 });
    store.lies.push(() => wrong);
    store.cannotRemove = true;
    const key = await stageFile(staging, randomBytes(500));
    await staging.merging.flush();
    expect(told[0]).toContain('; it is deleted later, and sent again');
    expect(staging.fileMap.unwanted()).toEqual([wrong]);
    store.cannotRemove = false;
    await staging.fsck({ repair: true });
    expect([...store.files.keys()]).toEqual([staging.fileMap.find(key)!.trunk!.fileId]);
  });

  test('is no large file without slice ids: it has one of its own', async () => {
    const { staging, store, told } = await openLiar();
    const key = await spoolFile(staging, randomBytes(2 * MIB));
    await staging.merging.flush();
    expect(told).toEqual([]);
    expect(staging.fileMap.find(key)!.trunk!.fileId).not.toMatch(/merged$/);
    expect(store.files.size).toBe(1);
  });
});

test('one that FastDFS stored wrongly, and of which nobody heard, is not adopted', async () => {
  const folder = temporaryFolder();
  const store = new MemoryTrunkStore();
  const first = await openStaging(folder, QUIET, store);
  store.damage = (stored) => {
    const damaged = Buffer.from(stored);
    damaged[100]! ^= 1;
    return damaged;
  };
  store.beforeReply = () => {
    store.isAway = true;
    throw new Error('the reply was lost');
  };
  const bytes = randomBytes(500);
  const key = await stageFile(first.staging, bytes);
  const flushing = first.staging.merging.flush();
  await until(() => first.errors.length > 1);
  await first.staging.close();
  await flushing;
  const fresh = new MemoryTrunkStore();
  for (const [id, stored] of store.files) fresh.files.set(id, stored);
  const { staging } = await openStaging(folder, QUIET, fresh);
  await staging.fsck({ repair: true });
  await staging.merging.flush();
  await staging.fsck({ repair: true });
  const { fileId } = staging.fileMap.find(key)!.trunk!;
  expect(fresh.files.get(fileId)!.includes(bytes)).toBe(true);
  expect([...fresh.files.keys()]).toEqual([fileId]);
});

test('files that are damaged are told of by the first of them and their number', async () => {
  const folder = temporaryFolder();
  const { staging, errors } = await openStaging(folder, QUIET);
  const files = [500, 600, 700].map((size) => randomBytes(size));
  const keys: Buffer[] = [];
  for (const bytes of files) keys.push(await stageFile(staging, bytes));
  for (const at of [0, 2]) turnBit(join(folder, 'container'), files[at]!);
  await staging.merging.flush();
  const text = `the staged bytes of ${formatKey(keys[0]!)} and of 1 more are damaged`;
  expect(errors[0]!.message).toBe(text);
  expect(staging.stats()).toMatchObject({ mergedFiles: 1, unpackableFiles: 2 });
});

test.each([true, false])(
  'that FastDFS may have another copy is known without the FileMap; it has one: %s',
  async (isLost) => {
    const folder = temporaryFolder();
    const first = await openStaging(folder, QUIET);
    first.store.beforeReply = () => {
      first.store.beforeReply = () => undefined;
      if (isLost) throw new Error('the reply was lost');
    };
    await stageFile(first.staging, randomBytes(500));
    await first.staging.merging.flush();
    await first.staging.close();
    forgetFileMap(folder);
    const { staging } = await openStaging(folder, { ...QUIET, rebuildsFirst: true }, first.store);
    expect(staging.stats()).toMatchObject({
      mergedFiles: 1,
      orphans: { openPlans: isLost ? 1 : 0 },
    });
  },
);

/** Of segments, once it is watched: how much each read was to give. */
async function reopened(
  fill: (staging: Staging) => Promise<unknown>,
  more?: Partial<StagingOptions>,
) {
  const folder = temporaryFolder();
  const options = { ...QUIET, trunkSize: 8 * MIB, ...more };
  const first = await openStaging(folder, options);
  await fill(first.staging);
  await first.staging.close();
  let isWatched = false;
  const reads: number[] = [];
  const disk = watchedDisk(({ operation, path, given }, run) => {
    const isRead = operation === 'readAt' && path.endsWith('.seg');
    if (isWatched && isRead) reads.push((given[0] as Buffer).length);
    return run();
  });
  const { staging, store } = await openStaging(folder, { ...options, disk });
  isWatched = true;
  await staging.merging.flush();
  expect(staging.stats()).toMatchObject({ waitingFiles: 0, unpackableFiles: 0, trunks: 1 });
  return { staging, store, reads };
}

describe('a trunk', () => {
  test('is read in pieces of a MiB at most', async () => {
    const { reads } = await reopened(async (staging) => {
      for (let file = 0; file < 25; file += 1) await stageFile(staging, randomBytes(100 * KIB));
    });
    expect(reads).toHaveLength(3);
    for (const bytes of reads) expect(bytes).toBeLessThanOrEqual(MIB);
    expect(reads[0]).toBeGreaterThan(MIB - 101 * KIB);
  });

  test('of tiny files is read in pieces of a thousand', async () => {
    const { reads } = await reopened((staging) =>
      stageTogether(
        staging,
        Array.from({ length: 2_001 }, () => Buffer.from('x')),
      ),
    );
    expect(reads).toHaveLength(3);
    expect(reads.at(-1)).toBe(1);
  });

  test.each([
    ['at once over a small gap', 60, 1],
    ['in parts around a large one', 70, 2],
  ])('is read %s', async (_, gapKib, count) => {
    const { reads } = await reopened(async (staging) => {
      await stageFile(staging, randomBytes(1000));
      const gap = await stageFile(staging, randomBytes(gapKib * KIB));
      await stageFile(staging, randomBytes(1000));
      await staging.deletions.delete(gap);
    });
    expect(reads).toHaveLength(count);
  });

  test.each([
    ['one segment', undefined, 2],
    ['several segments', 8_192, 4],
  ])(
    'of a group whose files came among others in %s is read as it is',
    async (_, segmentBytes, count) => {
      const files: { group?: string; bytes: Buffer }[] = [
        { group: 'g', bytes: randomBytes(3_000) },
        { bytes: randomBytes(5_000) },
        { group: 'g', bytes: randomBytes(4_000) },
        { bytes: randomBytes(6_000) },
      ];
      const { staging, store, reads } = await reopened(
        async (fresh) => {
          for (const { bytes, group } of files) {
            await stageFile(fresh, bytes, group === undefined ? {} : { group });
          }
        },
        segmentBytes === undefined ? {} : { segmentBytes },
      );
      const [trunk] = store.files.values();
      const places = files.map(({ bytes }) => trunk!.indexOf(bytes));
      expect(Math.min(...places)).toBeGreaterThan(0);
      // The first file of the group, its second one, and only then the one between them.
      expect(places[2]).toBeLessThan(places[1]!);
      expect(reads).toHaveLength(count);
      expect(staging.stats().mergedFiles).toBe(4);
    },
  );

  test('is confirmed in pages, and what uploads do has its turn between them', async () => {
    const { staging } = await openStaging(temporaryFolder(), QUIET);
    await stageTogether(
      staging,
      Array.from({ length: 1_200 }, () => Buffer.from('x')),
    );
    const { fileMap } = staging;
    const confirm = fileMap.confirmMembers.bind(fileMap);
    const seen: (number | string)[] = [];
    fileMap.confirmMembers = (trunk, page) => {
      setImmediate(() => seen.push('others'));
      seen.push(page.length);
      return confirm(trunk, page);
    };
    await staging.merging.flush();
    expect(seen).toEqual([500, 'others', 500, 'others', 200, 'others']);
  });

  test('whose confirmation fails in its midst is confirmed again, and its files count once', async () => {
    const { staging, store, errors } = await openStaging(temporaryFolder(), QUIET);
    const contents = Array.from({ length: 1_200 }, () => Buffer.from('ten bytes!'));
    await stageTogether(staging, contents);
    const { fileMap } = staging;
    const confirm = fileMap.confirmMembers.bind(fileMap);
    let pages = 0;
    fileMap.confirmMembers = (trunk, page) => {
      pages += 1;
      if (pages === 2) throw new Error('the FileMap is busy');
      return confirm(trunk, page);
    };
    await staging.merging.flush();
    expect(errors.map(({ message }) => message)).toEqual(['the FileMap is busy']);
    const all = { mergedFiles: 1_200, mergedBytes: 12_000, waitingFiles: 0, waitingBytes: 0 };
    expect(staging.stats()).toMatchObject(all);
    expect(staging.fileMap.trunksIn('confirmed')).toMatchObject([{ files: 1_200 }]);
    // The first one is an orphan.
    expect(store.files.size).toBe(2);
    expect(staging.stats().orphans.openPlans).toBe(1);
    const { deadFiles, deadBytes } = await staging.fsck({ repair: true });
    expect([deadFiles, deadBytes]).toEqual([0, 0]);
    expect(store.files.size).toBe(1);
  });
});

describe('a large file', () => {
  test('that is gone from the spool is left out, and the others are sent', async () => {
    const folder = temporaryFolder();
    const { staging, store } = await openStaging(folder, QUIET);
    store.isAway = true;
    const keys = [await spoolFile(staging, randomBytes(2 * MIB))];
    const spool = join(folder, 'spool');
    for (const name of readdirSync(spool)) rmSync(join(spool, name));
    keys.push(await spoolFile(staging, randomBytes(2 * MIB)));
    store.isAway = false;
    await staging.merging.flush();
    const isMerged = keys.map((key) => staging.fileMap.find(key)!.trunk !== undefined);
    expect(isMerged).toEqual([false, true]);
    expect(staging.stats().unpackableFiles).toBe(1);
  });

  test('is known by the record that it is stored, once that of its staging has gone', async () => {
    const folder = temporaryFolder();
    const options = { ...QUIET, retain: 0, segmentBytes: 1000 };
    const { staging, store } = await openStaging(folder, options);
    const segments = () => readdirSync(join(folder, 'container'));
    const [first] = segments();
    store.isAway = true;
    const key = await spoolFile(staging, randomBytes(3 * MIB));
    await stageFile(staging, randomBytes(2000));
    store.isAway = false;
    await staging.merging.flush();
    await until(() => !segments().includes(first!));
    const { local: _, ...row } = staging.fileMap.find(key)!;
    const blocks = staging.fileMap.blocks(key);
    expect(blocks).toHaveLength(3 * 16);
    await staging.close();
    forgetFileMap(folder);
    const again = await openStaging(folder, { ...options, rebuildsFirst: true }, store);
    expect(again.staging.fileMap.find(key)).toMatchObject(row);
    expect(again.staging.fileMap.blocks(key)).toEqual(blocks);
  });
});

test('a trunk whose record is refused is not deleted: it is in doubt, and sent again', async () => {
  let isFailing = false;
  const disk = watchedDisk(async ({ operation, path }, run) => {
    if (isFailing && operation === 'sync' && path.endsWith('.seg')) {
      throw Object.assign(new Error('EIO'), { code: 'EIO' });
    }
    return run();
  });
  const { staging, store, errors } = await openStaging(temporaryFolder(), { ...QUIET, disk });
  store.beforeReply = () => {
    isFailing = true;
  };
  const key = await stageFile(staging, randomBytes(500));
  const flushed = staging.merging.flush();
  await until(() => errors.length > 0);
  expect(store.removed).toEqual([]);
  expect(staging.stats()).toMatchObject({ sendRetries: 1, orphans: { openPlans: 1 } });
  store.beforeReply = () => undefined;
  isFailing = false;
  await flushed;
  const { fileId } = staging.fileMap.find(key)!.trunk!;
  expect([...store.files.keys()]).toContain(fileId);
  await staging.fsck({ repair: true });
  expect([...store.files.keys()]).toEqual([fileId]);
});

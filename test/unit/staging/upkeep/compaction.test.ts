import { randomBytes } from 'node:crypto';
import { parseSliceId } from '@stevedore/protocol';
import { fileIdOf, formatKey, type Staging } from '@stevedore/staging';
import { describe, expect, test } from 'vitest';
import { MemoryTrunkStore } from '../../../support/memory-trunk-store.js';
import {
  forgetFileMap,
  openStaging,
  spoolFile,
  stageFile,
  until,
} from '../../../support/staging.js';
import { temporaryFolder } from '../../../support/temporary.js';

const MIB = 2 ** 20;
/** Nothing stays local: what is read after merging comes from the trunk. */
const NOTHING_KEPT = { retain: 0, segmentBytes: 4096, compactionBytesPerSecond: 2 ** 30 };

interface File {
  readonly key: Buffer;
  readonly bytes: Buffer;
}

async function stageMany(staging: Staging, count: number, size = 3000): Promise<File[]> {
  const files: File[] = [];
  for (let index = 0; index < count; index++) {
    const bytes = randomBytes(size + index);
    files.push({
      key: await stageFile(staging, bytes, { name: `${index}.jpg`, group: 'g' }),
      bytes,
    });
  }
  return files;
}

/** The bytes from wherever the store says they are. */
async function readAnywhere(staging: Staging, store: MemoryTrunkStore, key: Buffer) {
  const row = staging.fileMap.find(key);
  if (!row) return undefined;
  if (row.local.at !== 'container' && !staging.local.has(row))
    return store.files.get(row.trunk?.fileId ?? '');
  const local = row.local.at !== 'container' ? undefined : await staging.local.read(row);
  if (local) return local;
  const trunk = store.files.get(row.trunk?.fileId ?? '');
  return trunk?.subarray(row.trunk!.offset, row.trunk!.offset + row.size);
}

async function expectAll(staging: Staging, store: MemoryTrunkStore, files: readonly File[]) {
  for (const { key, bytes } of files) {
    const found = await readAnywhere(staging, store, key);
    expect(found?.equals(bytes), formatKey(key)).toBe(true);
  }
}

describe('compaction', () => {
  test('a trunk more than half dead is emptied into another and deleted; keys and old slice ids go on', async () => {
    const { staging, store } = await openStaging(temporaryFolder(), NOTHING_KEPT);
    const files = await stageMany(staging, 30);
    await staging.merging.flush();
    const [oldTrunk] = store.files.keys();
    const kept = files.slice(20);
    const oldIds = kept.map(({ key }) => fileIdOf(staging.fileMap.find(key)!)!);
    for (const { key } of files.slice(0, 20)) await staging.deletions.delete(key);
    await until(() => staging.stats().mergedFiles < 10 || store.removed.length > 0);
    await expectAll(staging, store, kept);
    await staging.merging.flush();
    await until(() => store.removed.includes(oldTrunk!));
    await expectAll(staging, store, kept);
    expect(store.files.size).toBe(1);
    for (const [index, { key }] of kept.entries()) {
      const newId = fileIdOf(staging.fileMap.find(key)!);
      expect(newId).toBeDefined();
      expect(newId).not.toBe(oldIds[index]);
      const old = parseSliceId(oldIds[index]!)!;
      expect(staging.fileMap.forwarded(oldTrunk!, old.offset)?.key.equals(key)).toBe(true);
    }
    expect(staging.stats()).toMatchObject({ mergedFiles: 10, waitingFiles: 0, trunks: 1 });
  });

  test('a trunk whose files all expire within a week is left to expire; a later one is not', async () => {
    for (const [days, isLeft] of [
      [6, true],
      [8, false],
    ] as const) {
      const { staging, store } = await openStaging(temporaryFolder(), NOTHING_KEPT);
      const expiresAt = Date.now() + days * 86_400_000;
      const keys: Buffer[] = [];
      for (let file = 0; file < 10; file += 1) {
        keys.push(await stageFile(staging, randomBytes(1000), { expiresAt }));
      }
      await staging.merging.flush();
      for (const key of keys.slice(0, 9)) await staging.deletions.delete(key);
      await staging.compact();
      expect(staging.stats().waitingFiles).toBe(isLeft ? 0 : 1);
      await staging.deletions.delete(keys[9]!);
      await until(() => store.files.size === 0);
    }
  });

  test('the old trunk stays until every moved file is confirmed elsewhere', async () => {
    const { staging, store } = await openStaging(temporaryFolder(), NOTHING_KEPT);
    const files = await stageMany(staging, 10);
    await staging.merging.flush();
    const [oldTrunk] = store.files.keys();
    let away = true;
    store.beforeStore = () => {
      if (away) throw new Error('away');
    };
    for (const { key } of files.slice(0, 8)) await staging.deletions.delete(key);
    await until(() => staging.stats().waitingFiles === 2);
    await staging.compact();
    expect(store.files.has(oldTrunk!)).toBe(true);
    await expectAll(staging, store, files.slice(8));
    away = false;
    await staging.merging.flush();
    await until(() => !store.files.has(oldTrunk!));
    await expectAll(staging, store, files.slice(8));
  });

  test('a file deleted while it is moved stays deleted, also when the FileMap is made anew', async () => {
    const folder = temporaryFolder();
    const store = new MemoryTrunkStore();
    const { staging } = await openStaging(folder, NOTHING_KEPT, store);
    const files = await stageMany(staging, 12);
    await staging.merging.flush();
    // What is moved has to be read from the trunk.
    await until(() => !staging.local.has(staging.fileMap.find(files[9]!.key)!));
    let reads = 0;
    store.beforeRead = async () => {
      reads += 1;
      // In the middle of reading what is to be moved.
      if (reads === 1) await staging.deletions.delete(files[11]!.key);
    };
    for (const { key } of files.slice(0, 9)) await staging.deletions.delete(key);
    await until(() => reads > 0);
    await staging.merging.flush();
    await staging.compact();
    expect(staging.fileMap.find(files[11]!.key)).toBeUndefined();
    await expectAll(staging, store, files.slice(9, 11));
    await staging.close();
    forgetFileMap(folder);
    const again = await openStaging(folder, NOTHING_KEPT, store);
    expect(again.staging.fileMap.find(files[11]!.key)).toBeUndefined();
    expect(again.staging.fileMap.isDeleted(files[11]!.key)).toBe(true);
    await expectAll(again.staging, store, files.slice(9, 11));
  });
});

describe('a FileMap made anew', () => {
  test('from container and trunks alone: keys, names, groups, ids, deletions, forwarding', async () => {
    const folder = temporaryFolder();
    const store = new MemoryTrunkStore();
    const first = await openStaging(folder, NOTHING_KEPT, store);
    const moved = await stageMany(first.staging, 30);
    await first.staging.merging.flush();
    const oldId = fileIdOf(first.staging.fileMap.find(moved[29]!.key)!)!;
    for (const { key } of moved.slice(0, 20)) await first.staging.deletions.delete(key);
    await until(() => store.removed.length === 1 || first.staging.stats().waitingFiles === 10);
    await first.staging.merging.flush();
    const merged = await stageMany(first.staging, 40);
    await first.staging.merging.flush();
    const deleted = merged[7]!.key;
    await first.staging.deletions.delete(deleted);
    const largeBytes = randomBytes(2 * MIB);
    const large = { bytes: largeBytes, key: await spoolFile(first.staging, largeBytes) };
    const largeGone = await spoolFile(first.staging, randomBytes(2 * MIB));
    await first.staging.merging.flush();
    await first.staging.deletions.delete(largeGone);
    const staged = await stageMany(first.staging, 5);
    await until(() => store.removed.length >= 2);
    const alive = [
      ...moved.slice(20),
      ...merged.filter(({ key }) => key !== deleted),
      large,
      ...staged,
    ];
    const ids = alive.map(({ key }) => fileIdOf(first.staging.fileMap.find(key)!));
    const stats = first.staging.stats();
    const trunks = [...store.files.keys()].map((id) => first.staging.fileMap.trunkByFileId(id));
    await first.staging.close();

    store.isAway = true;
    forgetFileMap(folder);
    const { staging } = await openStaging(folder, NOTHING_KEPT, store);
    expect(staging.rebuild.isComplete).toBe(true);
    await expectAll(staging, store, alive);
    expect(alive.map(({ key }) => fileIdOf(staging.fileMap.find(key)!))).toEqual(ids);
    expect(staging.fileMap.find(moved[25]!.key)).toMatchObject({ name: '25.jpg', group: 'g' });
    expect(staging.fileMap.find(deleted)).toBeUndefined();
    expect(staging.fileMap.find(largeGone)).toBeUndefined();
    const old = parseSliceId(oldId)!;
    const trunkOfOld = `${old.trunk.group}/${old.trunk.name}`;
    expect(staging.fileMap.forwarded(trunkOfOld, old.offset)?.key.equals(moved[29]!.key)).toBe(
      true,
    );
    const { containerBytes: _, room: __, ...counted } = stats;
    expect(staging.stats()).toMatchObject(counted);
    for (const trunk of trunks) {
      const { id: _id, recordSegment: _segment, copied, ...same } = trunk!;
      const rebuilt = staging.fileMap.trunkByFileId(trunk!.fileId!)!;
      expect(rebuilt).toMatchObject(same);
      // The storages were asked again, at a later time.
      expect(rebuilt.copied).toBeGreaterThanOrEqual(copied);
    }
  });

  test('while FastDFS is away: what is staged is there, the rest follows when it is back', async () => {
    const folder = temporaryFolder();
    const store = new MemoryTrunkStore();
    const first = await openStaging(folder, NOTHING_KEPT, store);
    const merged = await stageMany(first.staging, 10);
    await first.staging.merging.flush();
    // A second round pushes the first one's plan out of the container.
    await stageMany(first.staging, 10);
    await first.staging.merging.flush();
    await until(() => !first.staging.local.has(first.staging.fileMap.find(merged[9]!.key)!));
    const [staged] = await stageMany(first.staging, 1);
    await first.staging.close();
    forgetFileMap(folder);
    store.beforeRead = () => {
      throw new Error('away');
    };
    const { staging, errors } = await openStaging(folder, NOTHING_KEPT, store);
    expect(staging.rebuild.isComplete).toBe(false);
    await until(() => errors.length > 0);
    expect(errors[0]!.message).toContain('rebuilt');
    await expectAll(staging, store, [staged!]);
    store.beforeRead = () => undefined;
    await until(() => staging.rebuild.isComplete);
    await expectAll(staging, store, merged);
  });
});

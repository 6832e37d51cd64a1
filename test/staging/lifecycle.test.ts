import { randomBytes } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseSliceId } from '@stevedore/protocol';
import { DirectoryLock, fileIdOf, formatKey, parseKey } from '@stevedore/staging';
import { describe, expect, test } from 'vitest';
import { execFileSync } from '../support/child-process.js';
import { openStaging, spoolFile, stageFile, stageTogether, until } from '../support/staging.js';
import { temporaryFolder } from '../support/temporary.js';

const MIB = 2 ** 20;

describe('staging', () => {
  test('a staged file is found and read at once', async () => {
    const { staging } = await openStaging(temporaryFolder());
    const bytes = randomBytes(30_000);
    const key = await stageFile(staging, bytes, { name: 'a.jpg', group: 'page' });
    const row = staging.fileMap.find(key)!;
    expect(row).toMatchObject({ name: 'a.jpg', group: 'page', size: 30_000, trunk: undefined });
    expect((await staging.local.read(row))?.equals(bytes)).toBe(true);
    expect(fileIdOf(row)).toBeUndefined();
  });

  test('a trunk is a ZIP that unzip accepts, with the files under their keys', async () => {
    const folder = temporaryFolder();
    const { staging, store } = await openStaging(folder);
    const files = new Map<string, Buffer>();
    for (let index = 0; index < 40; index++) {
      const bytes = randomBytes(index * 300);
      files.set(formatKey(await stageFile(staging, bytes, { name: `${index}.png` })), bytes);
    }
    await staging.merging.flush();
    const [[trunkId, zip]] = [...store.files] as [[string, Buffer]];
    expect(trunkId.endsWith('.merged')).toBe(true);
    const path = join(folder, 'trunk.zip');
    writeFileSync(path, zip);
    execFileSync('unzip', ['-tq', path]);
    const out = join(folder, 'out');
    execFileSync('unzip', ['-q', path, '-d', out]);
    for (const [key, bytes] of files) {
      expect(readFileSync(join(out, `${key}.png`)).equals(bytes), key).toBe(true);
    }
    expect(readdirSync(out).length).toBe(files.size);
  });

  test('slice ids point at the very bytes in the trunk', async () => {
    const { staging, store } = await openStaging(temporaryFolder());
    const files: { key: Buffer; bytes: Buffer }[] = [];
    for (let index = 0; index < 20; index++) {
      const bytes = randomBytes(1 + index * 777);
      files.push({ key: await stageFile(staging, bytes), bytes });
    }
    await staging.merging.flush();
    for (const { key, bytes } of files) {
      const slice = parseSliceId(fileIdOf(staging.fileMap.find(key)!)!)!;
      const trunk = store.files.get(`${slice.trunk.group}/${slice.trunk.name}`)!;
      expect(trunk.subarray(slice.offset, slice.offset + slice.size).equals(bytes)).toBe(true);
      expect(slice.extension).toBe('bin');
    }
  });

  test('files of one group stand side by side in the order they came', async () => {
    const { staging } = await openStaging(temporaryFolder());
    const keys: { key: Buffer; group: string | undefined }[] = [];
    for (let index = 0; index < 60; index++) {
      const group = index % 4 === 0 ? undefined : `g${index % 4}`;
      const key = await stageFile(staging, randomBytes(500), group ? { group } : {});
      keys.push({ key, group });
    }
    await staging.merging.flush();
    for (const group of ['g1', 'g2', 'g3']) {
      const offsets = keys
        .filter((one) => one.group === group)
        .map(({ key }) => staging.fileMap.find(key)!.trunk!.offset);
      expect(offsets).toEqual([...offsets].sort((a, b) => a - b));
      const others = keys
        .filter((one) => one.group !== group)
        .map(({ key }) => staging.fileMap.find(key)!.trunk!.offset);
      const between = others.filter((at) => at > offsets[0]! && at < offsets.at(-1)!);
      expect(between).toEqual([]);
    }
  });

  test('no trunk exceeds its size, and all but the last are filled', async () => {
    const { staging, store } = await openStaging(temporaryFolder());
    // Staged together, so that the choice depends on the seed alone and not on the moment.
    const sizesOfFiles = Array.from(
      { length: 400 },
      (_, index) => 2000 + ((index * 7919) % 20_000),
    );
    await stageTogether(
      staging,
      sizesOfFiles.map((size) => randomBytes(size)),
    );
    await staging.merging.flush();
    const sizes = [...store.files.values()].map((bytes) => bytes.length);
    expect(sizes.length).toBeGreaterThan(3);
    for (const size of sizes) expect(size).toBeLessThanOrEqual(MIB);
    const full = sizes.sort((a, b) => b - a).slice(0, -1);
    for (const size of full) expect(MIB - size).toBeLessThanOrEqual(64);
  });

  test('merges by itself when a file has waited long enough', async () => {
    const { staging, store } = await openStaging(temporaryFolder(), { mergeMaxAge: 50 });
    const key = await stageFile(staging, randomBytes(100));
    await until(() => fileIdOf(staging.fileMap.find(key)!) !== undefined);
    expect(store.files.size).toBe(1);
  });

  test('merges by itself when enough has come in', async () => {
    const { staging, store } = await openStaging(temporaryFolder());
    const keys: Buffer[] = [];
    for (let index = 0; index < 30; index++)
      keys.push(await stageFile(staging, randomBytes(50_000)));
    await until(() => staging.stats().trunks === 1);
    expect([...store.files.values()][0]!.length).toBeGreaterThan(MIB * 0.9);
  });

  test('large files go whole and are read from the spool meanwhile', async () => {
    const { staging, store } = await openStaging(temporaryFolder());
    const bytes = randomBytes(3 * MIB);
    const key = await spoolFile(staging, bytes);
    const row = staging.fileMap.find(key)!;
    const chunks: Buffer[] = [];
    for await (const chunk of staging.spool.read(row.key, row)) chunks.push(chunk);
    expect(Buffer.concat(chunks).equals(bytes)).toBe(true);
    const part: Buffer[] = [];
    for await (const chunk of staging.spool.read(row.key, row, { start: 5, end: 1_000_004 }))
      part.push(chunk);
    expect(Buffer.concat(part).equals(bytes.subarray(5, 1_000_005))).toBe(true);
    await staging.merging.flush();
    const [[fileId, stored]] = [...store.files] as [[string, Buffer]];
    expect(stored.equals(bytes)).toBe(true);
    expect(fileIdOf(staging.fileMap.find(key)!)).toBe(fileId);
  });

  test('a second owner of the directory is refused', async () => {
    const folder = temporaryFolder();
    await openStaging(folder);
    await expect(openStaging(folder)).rejects.toMatchObject({ code: 'directory_locked' });
  });

  test('also after somebody removed the lock, as often as it is', async () => {
    const folder = temporaryFolder();
    const { staging } = await openStaging(folder);
    for (const _ of [1, 2]) {
      rmSync(join(folder, 'lock'));
      await expect(openStaging(folder)).rejects.toMatchObject({ code: 'directory_locked' });
    }
    await staging.close();
    rmSync(join(folder, 'lock'));
    // Its owner is gone, and does not take it back.
    const again = await openStaging(folder);
    await stageFile(again.staging, Buffer.from('mine'));
  });

  test('an owner that finds another in its place writes nothing more', async () => {
    const folder = temporaryFolder();
    const { staging, errors } = await openStaging(folder);
    rmSync(join(folder, 'lock'));
    // Before the owner can look, as if it had stood still.
    const other = DirectoryLock.acquire(folder);
    await until(() => errors.length > 0);
    expect(errors[0]).toMatchObject({ code: 'directory_locked' });
    await expect(stageFile(staging, Buffer.from('late'))).rejects.toMatchObject({ code: 'closed' });
    other.release();
  });

  test('a directory that is a file is refused', async () => {
    const path = join(temporaryFolder(), 'file');
    writeFileSync(path, 'x');
    await expect(openStaging(path)).rejects.toMatchObject({ code: 'directory_unusable' });
  });

  test.skipIf(!existsSync('/proc/self'))('so is one that cannot be made', async () => {
    await expect(openStaging('/proc/nope/nope')).rejects.toMatchObject({
      code: 'directory_unusable',
    });
  });

  test('keys of one directory share their origin for ever', async () => {
    const folder = temporaryFolder();
    const first = await openStaging(folder);
    const a = first.staging.keys.next();
    await first.staging.close();
    const second = await openStaging(folder);
    expect(second.staging.keys.next().readUInt16BE(6)).toBe(a.readUInt16BE(6));
    expect(parseKey(formatKey(a))?.equals(a)).toBe(true);
  });
});

describe('deletion', () => {
  test('of a staged file: gone at once, and it is not merged', async () => {
    const { staging, store } = await openStaging(temporaryFolder());
    const key = await stageFile(staging, randomBytes(100));
    expect(await staging.deletions.delete(key)).toBe(true);
    expect(await staging.deletions.delete(key)).toBe(false);
    expect(staging.fileMap.find(key)).toBeUndefined();
    await staging.merging.flush();
    expect(store.files.size).toBe(0);
  });

  test('of a merged file: counted as dead, and a trunk without living files is removed', async () => {
    const { staging, store } = await openStaging(temporaryFolder());
    const first = await stageFile(staging, randomBytes(100));
    const second = await stageFile(staging, randomBytes(200));
    await staging.merging.flush();
    const [trunkId] = store.files.keys();
    await staging.deletions.delete(first);
    expect(staging.fileMap.isDeleted(first)).toBe(true);
    expect(staging.fileMap.trunkByFileId(trunkId!)).toMatchObject({ deadFiles: 1, deadBytes: 100 });
    await staging.deletions.delete(second);
    await until(() => store.removed.includes(trunkId!));
    expect(store.files.size).toBe(0);
    expect(staging.stats()).toMatchObject({ mergedFiles: 0, mergedBytes: 0, trunks: 0 });
  });

  test('of a file whose trunk is on its way: it is dead in the trunk', async () => {
    const { staging, store } = await openStaging(temporaryFolder());
    const gone = await stageFile(staging, randomBytes(1000));
    const kept = await stageFile(staging, randomBytes(2000));
    let release: (() => void) | undefined;
    store.beforeStore = () => new Promise((resolve) => (release = resolve));
    const flushed = staging.merging.flush();
    await until(() => release !== undefined);
    await staging.deletions.delete(gone);
    release!();
    await flushed;
    expect(staging.fileMap.find(gone)).toBeUndefined();
    expect(fileIdOf(staging.fileMap.find(kept)!)).toBeDefined();
    const [trunkId] = store.files.keys();
    expect(staging.fileMap.trunkByFileId(trunkId!)).toMatchObject({
      deadFiles: 1,
      deadBytes: 1000,
    });
    expect(staging.stats()).toMatchObject({ waitingFiles: 0, waitingBytes: 0, mergedFiles: 1 });
  });

  test('of a large file that is on its way: nothing of it stays', async () => {
    const { staging, store } = await openStaging(temporaryFolder());
    const key = await spoolFile(staging, randomBytes(2 * MIB));
    let release: (() => void) | undefined;
    store.beforeStore = () => new Promise((resolve) => (release = resolve));
    const flushed = staging.merging.flush();
    await until(() => release !== undefined);
    await staging.deletions.delete(key);
    release!();
    await flushed;
    await until(() => store.removed.length === 1 && staging.stats().containerBytes < MIB);
    expect(store.files.size).toBe(0);
  });
});

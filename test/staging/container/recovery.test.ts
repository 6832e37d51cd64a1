import { type ChildProcess, fork } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import {
  appendFileSync,
  existsSync,
  readdirSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { fileIdOf, parseKey, type Staging } from '@stevedore/staging';
import { describe, expect, test } from 'vitest';
import { MemoryTrunkStore } from '../../support/memory-trunk-store.js';
import { openStaging, spoolFile, stageFile } from '../../support/staging.js';
import { temporaryFolder } from '../../support/temporary.js';

const MIB = 2 ** 20;

function removeFileMap(folder: string): void {
  for (const suffix of ['', '-wal', '-shm']) {
    rmSync(join(folder, `filemap.sqlite${suffix}`), { force: true });
  }
}

function segments(folder: string): string[] {
  return readdirSync(join(folder, 'container')).sort();
}

async function expectBytes(staging: Staging, key: Buffer, bytes: Buffer): Promise<void> {
  const row = staging.fileMap.find(key);
  expect(row).toBeDefined();
  expect((await staging.local.read(row!))?.equals(bytes)).toBe(true);
}

describe('after a restart', () => {
  test('everything is there, with the FileMap, without it, and with a damaged one', async () => {
    const folder = temporaryFolder();
    const store = awayStore();
    const files = new Map<Buffer, Buffer>();
    const first = await openStaging(folder, {}, store);
    for (let index = 0; index < 50; index++) {
      const bytes = randomBytes(1 + index * 100);
      files.set(await stageFile(first.staging, bytes, { name: `${index}.txt`, group: 'g' }), bytes);
    }
    const deleted = await stageFile(first.staging, randomBytes(10));
    await first.staging.deletions.delete(deleted);
    const large = await spoolFile(first.staging, randomBytes(2 * MIB));
    await first.staging.close();

    for (const harm of [
      () => {},
      () => removeFileMap(folder),
      () => writeFileSync(join(folder, 'filemap.sqlite'), randomBytes(40_000)),
    ]) {
      harm();
      const { staging } = await openStaging(folder, {}, store);
      for (const [key, bytes] of files) await expectBytes(staging, key, bytes);
      expect(staging.fileMap.find([...files.keys()][3]!)).toMatchObject({
        name: '3.txt',
        group: 'g',
      });
      expect(staging.fileMap.find(deleted)).toBeUndefined();
      expect(staging.local.has(staging.fileMap.find(large)!)).toBe(true);
      expect(staging.stats()).toMatchObject({ waitingFiles: 50, spooledFiles: 1 });
      await staging.close();
    }
    expect(readdirSync(folder).some((name) => name.includes('damaged'))).toBe(true);
  });

  test('merged files keep their ids, also when the FileMap is made anew', async () => {
    const folder = temporaryFolder();
    const store = new MemoryTrunkStore();
    const first = await openStaging(folder, {}, store);
    const keys: Buffer[] = [];
    for (let index = 0; index < 30; index++) {
      keys.push(await stageFile(first.staging, randomBytes(1000)));
    }
    const large = await spoolFile(first.staging, randomBytes(2 * MIB));
    await first.staging.merging.flush();
    await first.staging.deletions.delete(keys[0]!);
    const ids = keys.slice(1).map((key) => fileIdOf(first.staging.fileMap.find(key)!));
    const largeId = fileIdOf(first.staging.fileMap.find(large)!);
    await first.staging.close();
    removeFileMap(folder);
    const { staging } = await openStaging(folder, {}, store);
    expect(keys.slice(1).map((key) => fileIdOf(staging.fileMap.find(key)!))).toEqual(ids);
    expect(fileIdOf(staging.fileMap.find(large)!)).toBe(largeId);
    expect(staging.fileMap.find(keys[0]!)).toBeUndefined();
    expect(staging.fileMap.isDeleted(keys[0]!)).toBe(true);
    expect(staging.stats()).toMatchObject({ waitingFiles: 0, mergedFiles: 30, trunks: 2 });
    expect(store.files.size).toBe(2);
  });

  test('a torn or damaged end loses nothing that was acknowledged before it', async () => {
    const folder = temporaryFolder();
    const first = await openStaging(folder);
    const kept = await stageFile(first.staging, randomBytes(5000));
    const keptBytes = (await first.staging.local.read(first.staging.fileMap.find(kept)!))!;
    const [name] = segments(folder);
    const path = join(folder, 'container', name!);
    const sound = readFileSync(path).length;
    await stageFile(first.staging, randomBytes(5000));
    await first.staging.close();
    const whole = readFileSync(path);
    for (const cut of [1, 30, 59, 61, 200, whole.length - sound - 1]) {
      removeFileMap(folder);
      writeFileSync(path, whole.subarray(0, sound + cut));
      const { staging } = await openStaging(folder);
      await expectBytes(staging, kept, keptBytes);
      expect(staging.stats().waitingFiles, `cut ${cut}`).toBe(1);
      await staging.close();
    }
    removeFileMap(folder);
    writeFileSync(path, whole);
    appendFileSync(path, randomBytes(300));
    const { staging } = await openStaging(folder);
    expect(staging.stats().waitingFiles).toBe(2);
    const later = await stageFile(staging, Buffer.from('later'));
    await expectBytes(staging, later, Buffer.from('later'));
  });

  test('a trunk that was stored but not yet confirmed is confirmed, not sent again', async () => {
    const folder = temporaryFolder();
    const store = new MemoryTrunkStore();
    const first = await openStaging(folder, {}, store);
    const keys: Buffer[] = [];
    for (let index = 0; index < 10; index++)
      keys.push(await stageFile(first.staging, randomBytes(99)));
    await first.staging.merging.flush();
    await first.staging.close();
    // The record of the stored trunk is the last one of the segment: without the
    // FileMap's knowledge of it, a start finds it in the container.
    removeFileMap(folder);
    const { staging } = await openStaging(folder, {}, store);
    await staging.merging.flush();
    expect(store.files.size).toBe(1);
    for (const key of keys) expect(fileIdOf(staging.fileMap.find(key)!)).toBeDefined();
  });

  test('a plan that was not finished is given up and its files are packed again', async () => {
    const folder = temporaryFolder();
    const store = awayStore();
    const first = await openStaging(folder, { mergeMaxAge: 10 }, store);
    const bytes = randomBytes(1234);
    const key = await stageFile(first.staging, bytes);
    await expect.poll(() => first.errors.length).toBeGreaterThan(0);
    await first.staging.close();
    store.beforeStore = () => undefined;
    const { staging } = await openStaging(folder, {}, store);
    await expectBytes(staging, key, bytes);
    await staging.merging.flush();
    expect(fileIdOf(staging.fileMap.find(key)!)).toBeDefined();
  });

  test('spool files that no record speaks of are removed', async () => {
    const folder = temporaryFolder();
    const first = await openStaging(folder);
    await first.staging.close();
    writeFileSync(join(folder, 'spool', 'ab'.repeat(16)), 'left behind');
    writeFileSync(join(folder, 'spool', 'strange name'), 'left behind');
    await openStaging(folder);
    expect(readdirSync(join(folder, 'spool'))).toEqual([]);
  });

  test('an empty segment of a crash at its creation does no harm', async () => {
    const folder = temporaryFolder();
    const first = await openStaging(folder);
    const key = await stageFile(first.staging, Buffer.from('x'));
    await first.staging.close();
    writeFileSync(join(folder, 'container', '0000000002.seg'), '');
    const { staging } = await openStaging(folder);
    await expectBytes(staging, key, Buffer.from('x'));
    await stageFile(staging, Buffer.from('y'));
    truncateSync(join(folder, 'container', '0000000002.seg'), 0);
    expect(existsSync(join(folder, 'container', '0000000003.seg'))).toBe(true);
  });
});

describe('after SIGKILL', () => {
  test('every file that was acknowledged is there', async () => {
    const folder = temporaryFolder();
    const acknowledged = new Map<string, string>();
    for (let round = 0; round < 3; round++) {
      const child = fork(join(import.meta.dirname, '../../support/stage-until-killed.mjs'), [
        folder,
      ]);
      child.on('message', (message) => {
        const { key, hash } = message as { key: string; hash: string };
        acknowledged.set(key, hash);
      });
      await expect
        .poll(() => acknowledged.size, { timeout: 30_000 })
        .toBeGreaterThan((round + 1) * 300);
      await killed(child);
      const { staging } = await openStaging(folder, {}, awayStore());
      for (const [key, hash] of acknowledged) {
        const row = staging.fileMap.find(parseKey(key)!);
        expect(row, key).toBeDefined();
        const bytes = await staging.local.read(row!);
        expect(createHash('sha256').update(bytes!).digest('hex')).toBe(hash);
      }
      await staging.close();
    }
  });
});

function awayStore(): MemoryTrunkStore {
  const store = new MemoryTrunkStore();
  store.beforeStore = () => {
    throw new Error('FastDFS is away');
  };
  return store;
}

function killed(child: ChildProcess): Promise<void> {
  return new Promise((resolve) => {
    child.on('exit', () => resolve());
    child.kill('SIGKILL');
  });
}

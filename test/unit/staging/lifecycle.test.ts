import { randomBytes } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DirectoryLock, fileIdOf, formatKey, parseKey } from '@stevedore/staging';
import { describe, expect, test } from 'vitest';
import { execFileSync } from '../../support/child-process.js';
import { openStaging, spoolFile, stageFile, until } from '../../support/staging.js';
import { temporaryFolder } from '../../support/temporary.js';

const MIB = 2 ** 20;

describe('staging', () => {
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

  test('large files go whole and are read from the spool meanwhile', async () => {
    const { staging, store } = await openStaging(temporaryFolder());
    const trunks: unknown[] = [];
    staging.changes.on('trunk', (trunk) => trunks.push(trunk));
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
    expect(trunks).toMatchObject([{ kind: 'whole', fileId, bytes: 3 * MIB, files: 1, fill: 1 }]);
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

test('deletion of a large file that is on its way: nothing of it stays', async () => {
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

import { randomBytes } from 'node:crypto';
import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { type Disk, decoratedDisk, localDisk } from '@stevedore/disk';
import { describe, expect, test } from 'vitest';
import { MemoryTrunkStore } from '../../../support/memory-trunk-store.js';
import { openStaging, stageFile, until } from '../../../support/staging.js';
import { temporaryFolder } from '../../../support/temporary.js';

const MIB = 2 ** 20;

/** Of the segments: the reserve comes after a second, however much else was done by then. */
function bytesIn(folder: string): number {
  const names = readdirSync(folder).filter((name) => name.endsWith('.seg'));
  return names.reduce((sum, name) => sum + statSync(join(folder, name)).size, 0);
}

/** A disk of so many bytes, of which the container takes what it takes. */
function diskOf(totalBytes: number, directory: string): Disk {
  const freeBytes = (): number => totalBytes - bytesIn(join(directory, 'container'));
  return decoratedDisk(localDisk, { space: async () => ({ totalBytes, freeBytes: freeBytes() }) });
}

describe('a disk that is full down to its reserve', () => {
  test('loses read copies before an upload is refused', async () => {
    const directory = temporaryFolder();
    const { staging } = await openStaging(directory, {
      disk: diskOf(6 * MIB, directory),
      minFreeBytes: 2 * MIB,
      segmentBytes: 256 * 1024,
    });
    for (let count = 0; count < 120; count += 1) {
      await stageFile(staging, randomBytes(100_000));
      if (count % 10 === 9) await staging.merging.flush();
    }
    expect(staging.stats()).toMatchObject({ mergedFiles: 120, room: { full: undefined } });
    const inSegments = () => bytesIn(join(directory, 'container'));
    // A read copy may be on its way out.
    await until(() => inSegments() < 4 * MIB);
    await until(() => staging.stats().containerBytes === inSegments());
    await staging.close();
    const { staging: again } = await openStaging(directory, { segmentBytes: 256 * 1024 });
    expect(again.stats().containerBytes).toBe(bytesIn(join(directory, 'container')));
  });

  test('refuses by its own name, and takes files again once FastDFS has what is there', async () => {
    const directory = temporaryFolder();
    const store = new MemoryTrunkStore();
    store.isAway = true;
    const options = { disk: diskOf(4 * MIB, directory), minFreeBytes: 2 * MIB };
    const { staging } = await openStaging(directory, options, store);
    const fill = async () => {
      for (;;) await stageFile(staging, randomBytes(100_000));
    };
    await expect(fill()).rejects.toMatchObject({ code: 'disk_full', retryable: true });
    store.isAway = false;
    await until(() =>
      stageFile(staging, randomBytes(100_000)).then(
        () => true,
        () => false,
      ),
    );
  });
});

describe('what is merged, with nothing to retain', () => {
  test('stays while it is worth less than a new segment', async () => {
    const directory = temporaryFolder();
    const { staging } = await openStaging(directory, { retain: 0 });
    await stageFile(staging, randomBytes(100_000));
    await staging.merging.flush();
    const names = readdirSync(join(directory, 'container'));
    await staging.merging.flush();
    expect(readdirSync(join(directory, 'container'))).toEqual(names);
  });

  test('comes back from what is left of the container, with its deletions', async () => {
    const directory = temporaryFolder();
    const store = new MemoryTrunkStore();
    const first = await openStaging(directory, { retain: 0 }, store);
    const keys: Buffer[] = [];
    const bodies = Array.from({ length: 40 }, () => randomBytes(100_000));
    for (const body of bodies) keys.push(await stageFile(first.staging, body));
    await first.staging.merging.flush();
    await first.staging.deletions.delete(keys[7]!);
    await until(() => bytesIn(join(directory, 'container')) < 64 * 1024);
    await first.staging.close();
    const { staging } = await openStaging(directory, { retain: 0, rebuildsFirst: true }, store);
    expect(staging.fileMap.find(keys[7]!)).toBeUndefined();
    expect(keys.filter((key) => staging.fileMap.find(key))).toHaveLength(39);
  });
});

test.skipIf(process.platform === 'win32')(
  'a directory and the files in it are for their owner alone',
  async () => {
    const directory = join(temporaryFolder(), 'new');
    const { staging } = await openStaging(directory);
    await stageFile(staging, randomBytes(1000));
    const modeOf = (path: string) => (statSync(path).mode & 0o777).toString(8);
    expect(modeOf(directory)).toBe('700');
    const names = readdirSync(directory).filter((name) => statSync(join(directory, name)).isFile());
    expect(names).toContain('filemap.sqlite');
    for (const name of names) expect([name, modeOf(join(directory, name))]).toEqual([name, '600']);
    const [segment] = readdirSync(join(directory, 'container'));
    expect(modeOf(join(directory, 'container', segment!))).toBe('600');
  },
);

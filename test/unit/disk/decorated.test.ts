import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  type Disk,
  type DiskFile,
  decoratedDisk,
  decoratedFile,
  localDisk,
  slowDisk,
} from '@stevedore/disk';
import { describe, expect, test } from 'vitest';
import { DirectDisk } from '../../../bench/dist/data-node/direct-disk.js';
import { PageCache } from '../../../bench/dist/data-node/page-cache.js';
import { VirtualTime } from '../../../bench/dist/harness/virtual-time.js';
import { StorageCounters } from '../../../packages/storage/dist/counters.js';
import { BadSectors } from '../../support/bad-sectors.js';
import { ROOT } from '../../support/paths.js';
import { temporaryFolder } from '../../support/temporary.js';
import { watchedDisk } from '../../support/watched-disk.js';

/**
 * What decorates a disk sees everything that is done to it: an operation that it does not know goes
 * past it, so it must not offer it.
 */

const isRequired = (of: object) => (name: string) => !(name in of);
const optionalOf = (disk: Disk) => Object.keys(disk).filter(isRequired(decoratedDisk(disk, {})));
const optionalIn = (file: DiskFile) =>
  Object.keys(file).filter(isRequired(decoratedFile(file, {})));

/** With everything that a disk and its files may offer. */
function wholeDisk(): Disk {
  const nothing = () => undefined;
  const none = async () => {};
  return decoratedDisk(localDisk, { readNow: nothing, createNow: nothing, access: none }, (file) =>
    decoratedFile(file, { readNow: nothing, writeDurablyAt: none, releaseDurable: none }),
  );
}

/** By their modules: the decorator, and the optional operations that it decorates. */
const DECORATORS: Readonly<Record<string, readonly [(disk: Disk) => Disk, readonly string[]]>> = {
  'packages/storage/src/counters.ts': [
    (disk) => new StorageCounters(() => 0).counting(disk),
    ['readNow', 'createNow'],
  ],
  'packages/disk/src/slow-disk.ts': [(disk) => slowDisk(disk, 0), ['access']],
  'bench/src/data-node/direct-disk.ts': [() => new DirectDisk().disk, []],
  'bench/src/data-node/page-cache.ts': [(disk) => new PageCache(disk, 2 ** 20).disk, []],
  'bench/src/harness/virtual-time.ts': [(disk) => new VirtualTime(0).watched(disk), []],
  'test/support/bad-sectors.ts': [() => new BadSectors().disk, []],
  'test/support/watched-disk.ts': [(disk) => watchedDisk((_, run) => run(), disk), []],
};
/** Within a process of a benchmark: it counts reads. */
const WITHIN = ['bench/src/data-node/model-process.ts'];

describe('a decorated disk', () => {
  test('cannot be made by spreading one', () => {
    // @ts-expect-error: TypeScript lets nobody spread an object of a class.
    const spread: Disk = { ...localDisk, space: localDisk.space };
    expect(spread).toBeDefined();
  });

  test.each(Object.entries(DECORATORS))('%s offers what it decorates', async (_, [make, known]) => {
    const disk = make(wholeDisk());
    expect(optionalOf(disk).sort()).toEqual([...known].sort());
    const path = join(temporaryFolder(), 'file');
    for (const open of [disk.create, disk.openToRead, disk.openToUpdate]) {
      const file = await open(path);
      expect(optionalIn(file)).toEqual([]);
      await file.close();
    }
  });

  test('is one of these', () => {
    const folders = ['packages', 'bench/src', 'gateway/src', 'test/support'];
    const modules = folders.flatMap((folder) =>
      readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' })
        .filter((name) => name.endsWith('.ts') && !/(^|\/)(dist|node_modules)\//.test(name))
        .map((name) => join(folder, name)),
    );
    const decorating = modules.filter(
      (name) =>
        name !== 'packages/disk/src/disk.ts' &&
        readFileSync(join(ROOT, name), 'utf8').includes('decoratedDisk('),
    );
    expect(decorating.sort()).toEqual([...Object.keys(DECORATORS), ...WITHIN].sort());
  });
});

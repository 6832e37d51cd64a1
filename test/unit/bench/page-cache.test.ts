import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { decoratedDisk, decoratedFile, localDisk } from '@stevedore/disk';
import { expect, it } from 'vitest';
import { PageCache } from '../../../bench/dist/data-node/page-cache.js';
import { temporaryFolder } from '../../support/temporary.js';

const PAGE = 4096;

/** A file of 64 pages behind a cache of so many, and the reads of its disk. */
async function opened(pages: number) {
  const path = join(temporaryFolder(), 'file');
  const content = Buffer.from(Array.from({ length: 64 * PAGE }, (_, at) => (at / PAGE) | 0));
  writeFileSync(path, content);
  const fromDisk: number[] = [];
  const disk = decoratedDisk(localDisk, {
    openToRead: async (name: string) => {
      const file = await localDisk.openToRead(name);
      return decoratedFile(file, {
        readAt: (target, position) => {
          fromDisk.push(position);
          return file.readAt(target, position);
        },
      });
    },
  });
  const cache = new PageCache(disk, pages * PAGE);
  const file = await cache.disk.openToRead(path);
  const read = async (position: number, bytes: number): Promise<void> => {
    const target = Buffer.alloc(bytes);
    expect(await file.readAt(target, position)).toBe(bytes);
    expect(target.equals(content.subarray(position, position + bytes))).toBe(true);
  };
  return { cache, file, fromDisk, read };
}

it('answers from memory what was read before, and reads the rest of the disk', async () => {
  const { cache, file, fromDisk, read } = await opened(8);
  await read(100, 3 * PAGE);
  await read(100, 3 * PAGE);
  await read(PAGE, 10);
  expect(fromDisk).toEqual([0]);
  // Its last page is not there: whole pages are read.
  await read(3 * PAGE + 1, PAGE);
  expect(fromDisk).toEqual([0, 3 * PAGE]);
  expect(cache).toMatchObject({ hits: 2, misses: 2 });
  await file.close();
});

it('keeps as many pages as it may, those that were used last', async () => {
  const { cache, file, read } = await opened(4);
  for (let page = 0; page < 4; page += 1) await read(page * PAGE, PAGE);
  await read(0, PAGE);
  await read(4 * PAGE, PAGE);
  expect(cache).toMatchObject({ hits: 1, misses: 5 });
  await read(0, PAGE);
  expect(cache.hits).toBe(2);
  await read(PAGE, PAGE);
  expect(cache.misses).toBe(6);
  await file.close();
});

it('waits for pages that are on their way', async () => {
  const { cache, file, fromDisk, read } = await opened(8);
  await Promise.all([read(0, 2 * PAGE), read(PAGE, PAGE), read(0, PAGE)]);
  expect(fromDisk).toEqual([0]);
  expect(cache).toMatchObject({ hits: 2, misses: 1 });
  await file.close();
});

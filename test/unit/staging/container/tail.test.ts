import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { formatKey, smallFile } from '@stevedore/staging';
import { describe, expect, test } from 'vitest';
import { Tail } from '../../../../packages/staging/dist/container/tail.js';
import { turnBit } from '../../../support/rot.js';
import { openStaging, stageFile, until } from '../../../support/staging.js';
import { temporaryFolder } from '../../../support/temporary.js';

/** Files that were just staged are in memory: what becomes of them on the disk shows where they come from. */

const KIB = 1024;
/** Four slabs of 64 KiB. */
const OPTIONS = { tailBytes: 256 * KIB };

async function open() {
  const directory = temporaryFolder();
  const opened = await openStaging(directory, OPTIONS);
  const { staging } = opened;
  return {
    ...opened,
    rot: (bytes: Buffer) => turnBit(join(directory, 'container'), bytes),
    read: (key: Buffer) => staging.local.read(staging.fileMap.find(key)!),
    readNow: (key: Buffer) => staging.local.readNow(staging.fileMap.find(key)!),
  };
}

describe('the tail of the container in memory', () => {
  test('has a file that was just staged, in a copy of its own', async () => {
    const { staging, rot, read, readNow } = await open();
    const bytes = randomBytes(10_000);
    const key = await stageFile(staging, bytes);
    rot(bytes);
    const copy = await read(key);
    expect(copy?.equals(bytes)).toBe(true);
    copy?.fill(0);
    expect(readNow(key)?.equals(bytes)).toBe(true);
  });

  test('gives way to later files, and then the disk has the bytes', async () => {
    const { staging, rot, read } = await open();
    const files: { key: Buffer; bytes: Buffer }[] = [];
    for (let index = 0; index < 80; index += 1) {
      const bytes = randomBytes(9_000 + index);
      files.push({ key: await stageFile(staging, bytes), bytes });
    }
    for (const { key, bytes } of files) expect((await read(key))?.equals(bytes)).toBe(true);
    const [first] = files;
    const last = files.at(-1);
    rot(first!.bytes);
    rot(last!.bytes);
    await expect(read(first!.key)).rejects.toMatchObject({ code: 'corrupt' });
    expect((await read(last!.key))?.equals(last!.bytes)).toBe(true);
  });

  test('has no file that is larger than a slab', async () => {
    const { staging, rot, read } = await open();
    const large = randomBytes(65 * KIB);
    const small = randomBytes(5 * KIB);
    const [largeKey, smallKey] = [await stageFile(staging, large), await stageFile(staging, small)];
    expect((await read(largeKey))?.equals(large)).toBe(true);
    rot(large);
    rot(small);
    await expect(read(largeKey)).rejects.toMatchObject({ code: 'corrupt' });
    expect((await read(smallKey))?.equals(small)).toBe(true);
  });

  test('is what trunks are made of; one that FastDFS stored wrongly is sent from the disk', async () => {
    const { staging, store, rot } = await open();
    const [sent, again] = [randomBytes(10_000), randomBytes(11_000)];
    const key = await stageFile(staging, sent);
    rot(sent);
    await staging.merging.flush();
    const [trunk] = [...store.files.values()];
    expect(trunk?.includes(sent)).toBe(true);
    const damaged: string[] = [];
    staging.changes.on('damage', (event) => damaged.push(event.key));
    const later = await stageFile(staging, again);
    rot(again);
    let lies = 1;
    store.damage = (bytes) => (lies-- > 0 ? bytes.subarray(1) : bytes);
    await staging.merging.flush();
    await until(() => damaged.length > 0);
    expect(damaged).toEqual([formatKey(later)]);
    expect(staging.fileMap.find(key)?.trunk).toBeDefined();
    expect(staging.fileMap.find(later)?.trunk).toBeUndefined();
  });
});

test('beyond half of the tail, files that are in FastDFS stay only if they are read', () => {
  let needed = 1;
  // Four slabs of 128 KiB; each segment has one file, which fills a slab.
  const tail = new Tail(512 * KIB, () => needed);
  const size = 100 * KIB;
  const positions: number[] = [];
  const add = (): void => {
    const batch = tail.begin(positions.length + 1, 0);
    const about = { key: Buffer.alloc(16), name: '', type: '', group: undefined, stagedAt: 1 };
    const file = smallFile({ ...about, size, crc32: 1 }, [Buffer.alloc(size)]);
    batch.add(file);
    batch.end();
    batch.release();
    positions.push(file.position);
  };
  const kept = () =>
    positions.flatMap((position, index) => {
      const pinned = tail.pin([{ local: { at: 'container', segment: index + 1, position }, size }]);
      pinned?.release();
      return pinned ? index + 1 : [];
    });
  for (let file = 1; file <= 3; file += 1) add();
  tail.find(1, positions[0]!, size);
  needed = 3;
  add();
  expect(kept()).toEqual([1, 3, 4]);
  add();
  expect(kept()).toEqual([1, 3, 4, 5]);
  // The ring is full: the oldest goes, read or not.
  add();
  expect(kept()).toEqual([3, 4, 5, 6]);
});

import { open, writeFile } from 'node:fs/promises';
import type { StorageOptions } from '@stevedore/node';
import {
  deleteFile,
  type FileName,
  makeSliceId,
  regenerateAppender,
  truncateFile,
} from '@stevedore/protocol';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { Pace } from '../../../packages/disk/dist/pace.js';
import { Random } from '../../support/random.js';
import { idOf, pathOf, storageOf } from '../../support/storage/support.js';
import { trunkOf } from '../../support/storage/trunks.js';
import { watchedDisk } from '../../support/watched-disk.js';

/** Small files and slices in memory: what is read from the disk, and never anything old. */

const KIB = 1024;

/** The local disk, with the reads of files written down. */
function countedDisk() {
  const reads: { position: number; bytes: number }[] = [];
  const disk = watchedDisk(({ operation, given: [target, position], path }, run) => {
    if (operation === 'readAt' && !path.includes('.stevedore-')) {
      reads.push({ position: position as number, bytes: (target as Buffer).length });
    }
    return run();
  });
  return { disk, reads };
}

function contentOf(index: number, bytes = 20 * KIB): Buffer {
  return Buffer.alloc(bytes, `file ${index} of the trunk;`);
}

/** `groups` has the affinity group of each file of the trunk. */
async function withTrunk(
  groups: readonly (string | undefined)[],
  options: Partial<StorageOptions> = {},
  bytes?: number,
) {
  const { disk, reads } = countedDisk();
  const storage = await storageOf({ disk, ...options });
  const client = await storage.connect();
  const contents = groups.map((_, index) => contentOf(index, bytes));
  const trunk = trunkOf(contents, groups);
  const file = await client.upload(trunk.bytes, 'merged');
  const slices = trunk.entries.map((entry) => {
    const id = makeSliceId(idOf(file), entry, 'txt');
    return { group: file.group, name: id.slice(file.group.length + 1) };
  });
  /** Reads of the disk since the last call. */
  const diskReads = () => reads.splice(0);
  // The directory is read with the first of them; later reads are of content alone.
  const first = groups.length - 1;
  expect(await client.has(slices[first]!, contents[first]!)).toBe(true);
  diskReads();
  return { storage, client, contents, slices, file, trunk, diskReads };
}

describe('slices of one affinity group', () => {
  const GROUPS = ['a', 'a', 'a', 'a', undefined, 'b', 'b', undefined];

  it('are read from the disk together, when the first of them is asked for', async () => {
    const { storage, client, contents, slices, diskReads, trunk } = await withTrunk(GROUPS);
    expect(await client.has(slices[1]!, contents[1]!)).toBe(true);
    const from = trunk.entries[0]!.offset;
    const to = trunk.entries[3]!.offset + trunk.entries[3]!.size;
    expect(diskReads()).toEqual([{ position: from, bytes: to - from }]);
    for (const index of [0, 2, 3, 1, 0]) {
      expect(await client.has(slices[index]!, contents[index]!)).toBe(true);
    }
    expect(await client.read(slices[2]!, 10, 20)).toEqual(contents[2]!.subarray(10, 30));
    expect(diskReads()).toEqual([]);
    expect(storage.cacheStats().readAhead).toMatchObject({
      readBytes: 3 * 20 * KIB,
      usedBytes: 3 * 20 * KIB,
    });
  });

  it('are read once however many ask for any of them at the same time', async () => {
    const { storage, contents, slices, diskReads } = await withTrunk(GROUPS);
    const clients = await Promise.all(Array.from({ length: 16 }, () => storage.connect()));
    const outcomes = await Promise.all(
      clients.map((client, index) => client.has(slices[index % 4]!, contents[index % 4]!)),
    );
    expect(outcomes).not.toContain(false);
    expect(diskReads().length).toBe(1);
  });

  it('are read as far as the bound goes', async () => {
    const groups = Array<string>(100).fill('large');
    const { client, contents, slices, diskReads } = await withTrunk(groups);
    expect(await client.has(slices[10]!, contents[10]!)).toBe(true);
    const [only, ...rest] = diskReads();
    expect(rest).toEqual([]);
    expect(only!.bytes).toBeLessThanOrEqual(KIB * KIB);
    expect(only!.bytes).toBeGreaterThan(900 * KIB);
    expect(await client.has(slices[60]!, contents[60]!)).toBe(true);
    expect(diskReads()).toEqual([]);
  });

  it('are read alone when reading ahead is off, when they have no group, and without a cache', async () => {
    const off = await withTrunk(GROUPS, { readAheadBytes: 0 });
    expect(await off.client.has(off.slices[1]!, off.contents[1]!)).toBe(true);
    expect(off.diskReads()).toEqual([{ position: off.trunk.entries[1]!.offset, bytes: 20 * KIB }]);
    const alone = await withTrunk(GROUPS);
    expect(await alone.client.has(alone.slices[4]!, alone.contents[4]!)).toBe(true);
    expect(alone.diskReads().map(({ bytes }) => bytes)).toEqual([20 * KIB]);
    const none = await withTrunk(GROUPS, { cacheBytes: 0 });
    for (let again = 0; again < 2; again += 1) {
      expect(await none.client.has(none.slices[1]!, none.contents[1]!)).toBe(true);
      expect(none.diskReads().map(({ bytes }) => bytes)).toEqual([20 * KIB]);
    }
  });

  it('that are deleted are gone from memory too, and their neighbours are not', async () => {
    const { client, contents, slices } = await withTrunk(GROUPS);
    expect(await client.has(slices[0]!, contents[0]!)).toBe(true);
    expect((await client.ask(deleteFile, slices[2]!)).status).toBe(0);
    expect(await client.read(slices[2]!)).toBe(2);
    expect(await client.has(slices[3]!, contents[3]!)).toBe(true);
    // Not read ahead again either.
    expect((await client.ask(deleteFile, slices[6]!)).status).toBe(0);
    expect(await client.has(slices[5]!, contents[5]!)).toBe(true);
    expect(await client.read(slices[6]!)).toBe(2);
  });

  it('go from memory with their trunk', async () => {
    const { client, contents, slices, file } = await withTrunk(GROUPS);
    expect(await client.has(slices[0]!, contents[0]!)).toBe(true);
    expect((await client.ask(deleteFile, file)).status).toBe(0);
    for (const slice of slices) expect(await client.read(slice)).toBe(2);
  });

  it('that are damaged on the disk are not kept, and do not harm those beside them', async () => {
    const { storage, client, contents, slices, file, trunk } = await withTrunk(GROUPS);
    const handle = await open(pathOf(storage.folder, file), 'r+');
    await handle.write(Buffer.from('damage'), 0, 6, trunk.entries[2]!.offset + 100);
    await handle.close();
    expect(await client.has(slices[1]!, contents[1]!)).toBe(true);
    expect(await client.has(slices[0]!, contents[0]!)).toBe(true);
    expect(storage.errors).toEqual([]);
    expect(await client.has(slices[2]!, contents[2]!)).toBe(false);
    expect(storage.errors.map(({ message }) => message)).toEqual([
      expect.stringContaining('another CRC-32'),
    ]);
  });

  it('are no longer read together where nobody asks for the others', async () => {
    const groups = Array.from({ length: 600 }, (_, index) => `group-${Math.floor(index / 8)}`);
    const { storage, client, contents, slices, diskReads } = await withTrunk(groups, {
      cacheBytes: 2 * KIB * KIB,
    });
    const bytesOf = (reads: readonly { bytes: number }[]) =>
      reads.reduce((sum, { bytes }) => sum + bytes, 0) / reads.length;
    for (let index = 0; index < 160; index += 8) {
      expect(await client.has(slices[index]!, contents[index]!)).toBe(true);
    }
    expect(bytesOf(diskReads())).toBeGreaterThan(60 * KIB);
    for (let index = 160; index < 480; index += 8) {
      expect(await client.has(slices[index]!, contents[index]!)).toBe(true);
    }
    expect(bytesOf(diskReads())).toBeLessThan(40 * KIB);
    expect(storage.cacheStats().readAhead.declined).toBeGreaterThan(20);
  });
});

describe('small files in memory', () => {
  it('are read from the disk once, and are gone when they are deleted', async () => {
    const { disk, reads } = countedDisk();
    const storage = await storageOf({ disk });
    const client = await storage.connect();
    const content = contentOf(1);
    const file = await client.upload(content);
    for (let again = 0; again < 3; again += 1) {
      expect(await client.has(file, content)).toBe(true);
    }
    expect(await client.read(file, 5, 0)).toEqual(content.subarray(5));
    expect(reads.length).toBe(1);
    expect((await client.ask(deleteFile, file)).status).toBe(0);
    expect(await client.read(file)).toBe(2);
  });

  it('make way for others where they were read longest ago', async () => {
    const { disk, reads } = countedDisk();
    // For seven files, and one more that is not known to be read again.
    const storage = await storageOf({ disk, cacheBytes: 160 * KIB, readAheadBytes: 0 });
    const client = await storage.connect();
    const files: FileName[] = [];
    for (let index = 0; index < 9; index += 1) {
      files.push(await client.upload(contentOf(index, 19 * KIB)));
    }
    /** Whether the disk is read for it. */
    const isRead = async (index: number) => {
      reads.length = 0;
      expect(await client.has(files[index]!, contentOf(index, 19 * KIB))).toBe(true);
      return reads.length > 0;
    };
    for (let index = 0; index < 8; index += 1) expect(await isRead(index)).toBe(true);
    expect([await isRead(0), await isRead(7), await isRead(8)]).toEqual([false, false, true]);
    expect([await isRead(0), await isRead(7), await isRead(1)]).toEqual([false, false, true]);
  });

  it('are kept as the policy says', async () => {
    for (const cachePolicy of ['admission', 'lru'] as const) {
      const storage = await storageOf({ cachePolicy, cacheBytes: 64 * 1024 });
      const client = await storage.connect();
      const bytes = Buffer.alloc(6000);
      const often = await client.upload(bytes);
      for (let n = 0; n < 4; n += 1) await client.has(often, bytes);
      for (let n = 0; n < 30; n += 1) await client.has(await client.upload(bytes), bytes);
      const { hits } = storage.cacheStats();
      await client.has(often, bytes);
      expect(storage.cacheStats().hits - hits).toBe(cachePolicy === 'lru' ? 0 : 1);
    }
  });

  it('are asked of the filter first, where there is one', async () => {
    for (const cacheFilter of [true, false]) {
      const storage = await storageOf({ cacheFilter });
      const client = await storage.connect();
      const file = await client.upload(contentOf(1));
      expect(await client.has(file, contentOf(1))).toBe(true);
      expect(storage.cacheStats().filterNo).toBe(cacheFilter ? 1 : 0);
    }
  });

  it.each([
    ['with a cache', undefined],
    ['without one', 0],
  ])('are as long as they are on the disk, whatever their ids say, %s', async (_, cacheBytes) => {
    const storage = await storageOf({ ...(cacheBytes === 0 && { cacheBytes }) });
    const client = await storage.connect();
    for (const text of ['longer than it was', 'short']) {
      const file = await client.upload(Buffer.from('content'));
      await writeFile(pathOf(storage.folder, file), text);
      expect(await client.has(file, Buffer.from(text))).toBe(true);
      expect(await client.has(file, Buffer.from(text))).toBe(true);
    }
  });

  it('are kept once they are asked for again, where the system has them, by what is counted', async () => {
    vi.spyOn(Pace.prototype, 'isShort').mockReturnValue(true);
    onTestFinished(() => void vi.restoreAllMocks());
    const storage = await storageOf();
    const client = await storage.connect();
    const file = await client.upload(Buffer.from('content'));
    const counts = () => {
      const { fileOpen, fileRead, download, downloadBytes } = storage.statistics().operations;
      return [fileOpen, fileRead, download, downloadBytes].map(({ total, success }) => {
        expect(success).toBe(total);
        return total;
      });
    };
    const [opened = 0, read = 0] = counts();
    for (const times of [1, 2, 3, 4]) {
      expect(await client.has(file, Buffer.from('content'))).toBe(true);
      const fromDisk = Math.min(times, 2);
      expect(counts()).toEqual([opened + fromDisk, read + fromDisk, times, 7 * times]);
    }
  });

  it('are not held for their size: large ones are sent as they are read', async () => {
    const storage = await storageOf();
    const client = await storage.connect();
    const content = Buffer.alloc(3 * KIB * KIB, 'large');
    const file = await client.upload(content);
    expect(await client.has(file, content)).toBe(true);
    const appender = await client.appender(content);
    expect(await client.has(appender, content)).toBe(true);
    expect(storage.cacheStats()).toMatchObject({ files: 0 });
  });

  // Kept once they are asked for again, or at once if they had to be waited for.
  it.each([
    ['at once', true, [0, 0, 1]],
    ['by threads', false, [0, 1, 2]],
  ])('that change are never given as they were, read %s', async (_, isShort, hits) => {
    vi.spyOn(Pace.prototype, 'isShort').mockReturnValue(isShort);
    onTestFinished(() => void vi.restoreAllMocks());
    const storage = await storageOf();
    const client = await storage.connect();
    const file = await client.appender(Buffer.from('one two three'));
    const readText = async () => String(await client.read(file));
    expect(await readText()).toBe('one two three');
    expect(await client.modify(file, 4, Buffer.from('TWO'))).toBe(0);
    expect(await readText()).toBe('one TWO three');
    const { name } = file;
    expect((await client.ask(truncateFile, { name, size: 7 })).status).toBe(0);
    expect(await readText()).toBe('one TWO');
    expect(await client.append(file, ' four')).toBe(0);
    expect(await readText()).toBe('one TWO four');
    const renamed = (await client.ask(regenerateAppender, { name })).answer!;
    expect(await client.read(file)).toBe(2);
    for (const count of hits) {
      expect(String(await client.read(renamed))).toBe('one TWO four');
      expect(storage.cacheStats().hits).toBe(count);
    }
  });

  it('that appear are there at once, even for those who looked for them before', async () => {
    const storage = await storageOf();
    const client = await storage.connect();
    const master = await client.upload(Buffer.from('master'));
    const small = { group: master.group, name: master.name.replace('.txt', '_small.txt') };
    expect(await client.read(small)).toBe(2);
    expect(await client.slave(master, 'small', '_small')).toMatchObject(small);
    expect(String(await client.read(small))).toBe('small');
  });

  it('are as the last acknowledged change left them, or newer, while many read and one writes', async () => {
    for (const seed of [1, 2, 3]) {
      const random = new Random(seed);
      const storage = await storageOf();
      const writer = await storage.connect();
      const text = (version: number) => Buffer.from(String(version).padStart(8, '0').repeat(500));
      const file = await writer.appender(text(0));
      let acknowledged = 0;
      let done = false;
      const reading = Array.from({ length: 6 }, async () => {
        const client = await storage.connect();
        while (!done) {
          const atLeast = acknowledged;
          const bytes = String(await client.read(file));
          const version = Number(bytes.slice(0, 8));
          expect(version).toBeGreaterThanOrEqual(atLeast);
          expect(bytes).toBe(text(version).toString());
        }
      });
      for (let version = 1; version <= 40; version += 1) {
        expect(await writer.modify(file, 0, text(version))).toBe(0);
        acknowledged = version;
        for (let pause = random.below(4); pause > 0; pause -= 1) {
          expect(Number(String(await writer.read(file, 0, 8)))).toBe(version);
        }
      }
      done = true;
      await Promise.all(reading);
    }
  });
});

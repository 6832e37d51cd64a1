import { open } from 'node:fs/promises';
import { type Disk, decoratedFile, localDisk } from '@stevedore/disk';
import type { StorageOptions } from '@stevedore/node';
import {
  appendFile,
  createLink,
  deleteFile,
  downloadFile,
  encodeRequestHead,
  type FileName,
  makeSliceId,
  modifyFile,
  regenerateAppender,
  truncateFile,
  uploadAppenderFile,
  uploadSlaveFile,
} from '@stevedore/protocol';
import { describe, expect, it } from 'vitest';
import { Random } from '../support/random.js';
import { idOf, pathOf, type RawClient, storageOf } from './support.js';
import { trunkOf } from './trunks.js';

/** Small files and slices in memory: what is read from the disk, and never anything old. */

const KIB = 1024;

/** The local disk, with the reads of files written down. */
function countedDisk(): Disk & { readonly reads: { position: number; bytes: number }[] } {
  const reads: { position: number; bytes: number }[] = [];
  return {
    ...localDisk,
    reads,
    async openToRead(path) {
      const file = await localDisk.openToRead(path);
      return decoratedFile(file, {
        readAt: (target, position) => {
          reads.push({ position, bytes: target.length });
          return file.readAt(target, position);
        },
      });
    },
  };
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
  const disk = countedDisk();
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
  const diskReads = () => disk.reads.splice(0);
  // The directory is read with the first of them; later reads are of content alone.
  const first = groups.length - 1;
  expect(await sound(client, slices[first]!, contents[first]!)).toBe(true);
  diskReads();
  return { storage, client, contents, slices, file, trunk, diskReads };
}

async function read(client: RawClient, file: FileName, offset = 0, length = 0) {
  const { status, answer } = await client.ask(downloadFile, { ...file, offset, length });
  return answer ?? status;
}

async function sound(client: RawClient, file: FileName, expected: Buffer): Promise<boolean> {
  const bytes = await read(client, file);
  return Buffer.isBuffer(bytes) && bytes.equals(expected);
}

async function sendAppender(client: RawClient, content: Buffer): Promise<FileName> {
  const head = { storePathIndex: 0, size: content.length, extension: 'log' };
  client.send(encodeRequestHead(uploadAppenderFile, head));
  return uploadAppenderFile.reply.decode((await client.exchange(content)).body);
}

async function modify(client: RawClient, { name }: FileName, offset: number, content: Buffer) {
  client.send(encodeRequestHead(modifyFile, { name, offset, size: content.length }));
  return (await client.exchange(content)).status;
}

describe('slices of one affinity group', () => {
  const GROUPS = ['a', 'a', 'a', 'a', undefined, 'b', 'b', undefined];

  it('are read from the disk together, when the first of them is asked for', async () => {
    const { storage, client, contents, slices, diskReads, trunk } = await withTrunk(GROUPS);
    expect(await sound(client, slices[1]!, contents[1]!)).toBe(true);
    const from = trunk.entries[0]!.offset;
    const to = trunk.entries[3]!.offset + trunk.entries[3]!.size;
    expect(diskReads()).toEqual([{ position: from, bytes: to - from }]);
    for (const index of [0, 2, 3, 1, 0]) {
      expect(await sound(client, slices[index]!, contents[index]!)).toBe(true);
    }
    expect(await read(client, slices[2]!, 10, 20)).toEqual(contents[2]!.subarray(10, 30));
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
      clients.map((client, index) => sound(client, slices[index % 4]!, contents[index % 4]!)),
    );
    expect(outcomes).not.toContain(false);
    expect(diskReads().length).toBe(1);
  });

  it('are read as far as the bound goes', async () => {
    const groups = Array<string>(100).fill('large');
    const { client, contents, slices, diskReads } = await withTrunk(groups);
    expect(await sound(client, slices[10]!, contents[10]!)).toBe(true);
    const [only, ...rest] = diskReads();
    expect(rest).toEqual([]);
    expect(only!.bytes).toBeLessThanOrEqual(KIB * KIB);
    expect(only!.bytes).toBeGreaterThan(900 * KIB);
    expect(await sound(client, slices[60]!, contents[60]!)).toBe(true);
    expect(diskReads()).toEqual([]);
  });

  it('are read alone when reading ahead is off, when they have no group, and without a cache', async () => {
    const off = await withTrunk(GROUPS, { readAheadBytes: 0 });
    expect(await sound(off.client, off.slices[1]!, off.contents[1]!)).toBe(true);
    expect(off.diskReads()).toEqual([{ position: off.trunk.entries[1]!.offset, bytes: 20 * KIB }]);
    const alone = await withTrunk(GROUPS);
    expect(await sound(alone.client, alone.slices[4]!, alone.contents[4]!)).toBe(true);
    expect(alone.diskReads().map(({ bytes }) => bytes)).toEqual([20 * KIB]);
    const none = await withTrunk(GROUPS, { cacheBytes: 0 });
    for (let again = 0; again < 2; again += 1) {
      expect(await sound(none.client, none.slices[1]!, none.contents[1]!)).toBe(true);
      expect(none.diskReads().map(({ bytes }) => bytes)).toEqual([20 * KIB]);
    }
  });

  it('that are deleted are gone from memory too, and their neighbours are not', async () => {
    const { client, contents, slices } = await withTrunk(GROUPS);
    expect(await sound(client, slices[0]!, contents[0]!)).toBe(true);
    expect((await client.ask(deleteFile, slices[2]!)).status).toBe(0);
    expect(await read(client, slices[2]!)).toBe(2);
    expect(await sound(client, slices[3]!, contents[3]!)).toBe(true);
    // Not read ahead again either.
    expect((await client.ask(deleteFile, slices[6]!)).status).toBe(0);
    expect(await sound(client, slices[5]!, contents[5]!)).toBe(true);
    expect(await read(client, slices[6]!)).toBe(2);
  });

  it('go from memory with their trunk', async () => {
    const { client, contents, slices, file } = await withTrunk(GROUPS);
    expect(await sound(client, slices[0]!, contents[0]!)).toBe(true);
    expect((await client.ask(deleteFile, file)).status).toBe(0);
    for (const slice of slices) expect(await read(client, slice)).toBe(2);
  });

  it('that are damaged on the disk are not kept, and do not harm those beside them', async () => {
    const { storage, client, contents, slices, file, trunk } = await withTrunk(GROUPS);
    const handle = await open(pathOf(storage.folder, file), 'r+');
    await handle.write(Buffer.from('damage'), 0, 6, trunk.entries[2]!.offset + 100);
    await handle.close();
    expect(await sound(client, slices[1]!, contents[1]!)).toBe(true);
    expect(await sound(client, slices[0]!, contents[0]!)).toBe(true);
    expect(storage.errors).toEqual([]);
    expect(await sound(client, slices[2]!, contents[2]!)).toBe(false);
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
      expect(await sound(client, slices[index]!, contents[index]!)).toBe(true);
    }
    expect(bytesOf(diskReads())).toBeGreaterThan(60 * KIB);
    for (let index = 160; index < 480; index += 8) {
      expect(await sound(client, slices[index]!, contents[index]!)).toBe(true);
    }
    expect(bytesOf(diskReads())).toBeLessThan(40 * KIB);
    expect(storage.cacheStats().readAhead.declined).toBeGreaterThan(20);
  });
});

describe('small files in memory', () => {
  it('are read from the disk once, and are gone when they are deleted', async () => {
    const disk = countedDisk();
    const storage = await storageOf({ disk });
    const client = await storage.connect();
    const content = contentOf(1);
    const file = await client.upload(content);
    for (let again = 0; again < 3; again += 1) {
      expect(await sound(client, file, content)).toBe(true);
    }
    expect(await read(client, file, 5, 0)).toEqual(content.subarray(5));
    expect(disk.reads.length).toBe(1);
    expect((await client.ask(deleteFile, file)).status).toBe(0);
    expect(await read(client, file)).toBe(2);
  });

  it('are not held for their size: large ones are sent as they are read', async () => {
    const storage = await storageOf();
    const client = await storage.connect();
    const content = Buffer.alloc(3 * KIB * KIB, 'large');
    const file = await client.upload(content);
    expect(await sound(client, file, content)).toBe(true);
    const appender = await sendAppender(client, content);
    expect(await sound(client, appender, content)).toBe(true);
    expect(storage.cacheStats()).toMatchObject({ files: 0 });
  });

  it('that change are never given as they were', async () => {
    const storage = await storageOf();
    const client = await storage.connect();
    const file = await sendAppender(client, Buffer.from('one two three'));
    const readText = async () => String(await read(client, file));
    expect(await readText()).toBe('one two three');
    expect(await modify(client, file, 4, Buffer.from('TWO'))).toBe(0);
    expect(await readText()).toBe('one TWO three');
    const { name } = file;
    expect((await client.ask(truncateFile, { name, size: 7 })).status).toBe(0);
    expect(await readText()).toBe('one TWO');
    client.send(encodeRequestHead(appendFile, { name, size: 5 }));
    expect((await client.exchange(Buffer.from(' four'))).status).toBe(0);
    expect(await readText()).toBe('one TWO four');
    const renamed = (await client.ask(regenerateAppender, { name })).answer!;
    expect(await read(client, file)).toBe(2);
    expect(String(await read(client, renamed))).toBe('one TWO four');
    expect(storage.cacheStats().hits).toBe(0);
    expect(String(await read(client, renamed))).toBe('one TWO four');
    expect(storage.cacheStats().hits).toBe(1);
  });

  it('that appear are there at once, even for those who looked for them before', async () => {
    const storage = await storageOf();
    const client = await storage.connect();
    const master = await client.upload(Buffer.from('master'));
    const name = master.name.replace('.txt', '_small.txt');
    const small = { group: master.group, name: name.replace(/^(.*)\.txt$/, '$1.txt') };
    expect(await read(client, small)).toBe(2);
    const head = { master: master.name, prefix: '_small', extension: 'txt', size: 5 };
    client.send(encodeRequestHead(uploadSlaveFile, head));
    const { status, body } = await client.exchange(Buffer.from('small'));
    expect(status).toBe(0);
    const made = uploadSlaveFile.reply.decode(body);
    expect(made.name).toBe(small.name);
    expect(String(await read(client, small))).toBe('small');
  });

  it('that are links go with what they lead to', async () => {
    const storage = await storageOf();
    const client = await storage.connect();
    const file = await client.upload(Buffer.from('content'));
    const names = { group: 'group1', prefix: '', extension: 'lnk', signature: '' };
    const asked = { ...names, master: '', source: file.name };
    const link = (await client.ask(createLink, asked)).answer!;
    for (let again = 0; again < 2; again += 1) {
      expect(String(await read(client, link))).toBe('content');
    }
    expect((await client.ask(deleteFile, file)).status).toBe(0);
    expect(await read(client, link)).toBe(2);
  });

  it('are as the last acknowledged change left them, or newer, while many read and one writes', async () => {
    for (const seed of [1, 2, 3]) {
      const random = new Random(seed);
      const storage = await storageOf();
      const writer = await storage.connect();
      const text = (version: number) => Buffer.from(String(version).padStart(8, '0').repeat(500));
      const file = await sendAppender(writer, text(0));
      let acknowledged = 0;
      let done = false;
      const reading = Array.from({ length: 6 }, async () => {
        const client = await storage.connect();
        while (!done) {
          const atLeast = acknowledged;
          const bytes = String(await read(client, file));
          const version = Number(bytes.slice(0, 8));
          expect(version).toBeGreaterThanOrEqual(atLeast);
          expect(bytes).toBe(text(version).toString());
        }
      });
      for (let version = 1; version <= 40; version += 1) {
        expect(await modify(writer, file, 0, text(version))).toBe(0);
        acknowledged = version;
        for (let pause = random.below(4); pause > 0; pause -= 1) {
          expect(Number(String(await read(writer, file, 0, 8)))).toBe(version);
        }
      }
      done = true;
      await Promise.all(reading);
    }
  });
});

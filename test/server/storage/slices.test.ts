import { existsSync, readFileSync, truncateSync } from 'node:fs';
import { appendFile, writeFile } from 'node:fs/promises';
import { crc32 } from 'node:zlib';
import {
  decodeFields,
  deleteFile,
  type FileName,
  makeSliceId,
  queryFileInfo,
  type SliceEntry,
} from '@stevedore/protocol';
import { describe, expect, it } from 'vitest';
import { filesIn, idOf, pathOf, storageOf } from '../../support/storage/support.js';
import { trunkOf } from '../../support/storage/trunks.js';
import { temporaryFolder } from '../../support/temporary.js';

const CONTENTS = [
  Buffer.from('the first slice'),
  Buffer.alloc(0),
  Buffer.alloc(700_000, 'abcdefg'),
  Buffer.from('the last slice'),
];

function nameOf(id: string): FileName {
  const slash = id.indexOf('/');
  return { group: id.slice(0, slash), name: id.slice(slash + 1) };
}

async function loaded(folder = temporaryFolder(), options = {}) {
  const storage = await storageOf({ folder, ...options });
  const client = await storage.connect();
  const trunk = trunkOf(CONTENTS);
  const file = await client.upload(trunk.bytes, 'merged');
  const slice = (entry: SliceEntry, extension = 'txt') =>
    nameOf(makeSliceId(idOf(file), entry, extension));
  const slices = trunk.entries.map((entry) => slice(entry));
  return { storage, client, trunk, file, slice, slices, list: `${pathOf(folder, file)}-deleted` };
}

describe('slices of a trunk', () => {
  it('are read whole and in parts by their own ids', async () => {
    const { client, slices } = await loaded();
    for (const index of [0, 2, 3]) {
      expect(await client.has(slices[index]!, CONTENTS[index]!)).toBe(true);
    }
    expect(await client.read(slices[0]!, 4, 5)).toEqual(Buffer.from('first'));
    expect(await client.read(slices[0]!, 10)).toEqual(Buffer.from('slice'));
    expect(await client.read(slices[0]!, 10, 1000)).toEqual(Buffer.from('slice'));
    const part = CONTENTS[2]!.subarray(299_999, 600_000);
    expect(await client.has(slices[2]!, part, 299_999, 300_001)).toBe(true);
    expect(await client.has(slices[3]!, CONTENTS[3]!)).toBe(true);
  });

  it('are read whatever their extension, as the id says nothing else about it', async () => {
    const { client, trunk, slice } = await loaded();
    expect(await client.has(slice(trunk.entries[0]!, ''), CONTENTS[0]!)).toBe(true);
    expect(await client.has(slice(trunk.entries[0]!, 'tar.gz'), CONTENTS[0]!)).toBe(true);
  });

  it('end where the slice ends: an offset behind it is refused', async () => {
    const { storage, slices } = await loaded();
    for (const offset of [CONTENTS[0]!.length, 1_000_000]) {
      const client = await storage.connect();
      expect(await client.read(slices[0]!, offset)).toBe(22);
      await client.ended();
    }
  });

  it('of no bytes are there but cannot be downloaded, as empty files', async () => {
    const { client, slices } = await loaded();
    expect((await client.ask(queryFileInfo, slices[1]!)).answer).toMatchObject({ size: 0 });
    expect(await client.read(slices[1]!)).toBe(22);
  });

  it("tell their own size and CRC-32, and the trunk's time and source", async () => {
    const { client, slices, file } = await loaded();
    const { createdAtSeconds } = decodeFields(idOf(file).base);
    expect((await client.ask(queryFileInfo, slices[2]!)).answer).toEqual({
      size: CONTENTS[2]!.length,
      mtimeSeconds: createdAtSeconds,
      crc32: crc32(CONTENTS[2]!),
      sourceAddress: '127.0.0.1',
    });
  });

  it('that are forged are not there', async () => {
    const { client, trunk, slice } = await loaded();
    const [first, , third] = trunk.entries as [SliceEntry, SliceEntry, SliceEntry, SliceEntry];
    const forged: SliceEntry[] = [
      { ...first, offset: first.offset + 1 },
      { ...first, size: first.size + 1 },
      { ...first, size: first.size - 1 },
      { ...first, size: 0 },
      { ...first, crc32: (first.crc32 ^ 1) >>> 0 },
      { ...third, offset: first.offset },
      { offset: 0, size: trunk.bytes.length, crc32: crc32(trunk.bytes) },
      {
        offset: first.offset + 4,
        size: 5,
        crc32: crc32(CONTENTS[0]!.subarray(4, 9)),
      },
    ];
    for (const entry of forged) {
      expect(await client.read(slice(entry))).toBe(2);
      expect((await client.ask(queryFileInfo, slice(entry))).status).toBe(2);
      expect((await client.ask(deleteFile, slice(entry))).status).toBe(2);
    }
    expect(await client.has(slice(first), CONTENTS[0]!)).toBe(true);
  });

  it('of a trunk that is no trunk, or of none, are not there', async () => {
    const { client, trunk } = await loaded();
    const fake = await client.upload(Buffer.alloc(5000, 'x'), 'merged');
    const entry = { offset: 0, size: 10, crc32: crc32(Buffer.alloc(10, 'x')) };
    expect(await client.read(nameOf(makeSliceId(idOf(fake), entry, 'txt')))).toBe(2);
    const empty = await client.upload(Buffer.alloc(0), 'merged');
    const nothing = { offset: 0, size: 0, crc32: 0 };
    expect(await client.read(nameOf(makeSliceId(idOf(empty), nothing, 'txt')))).toBe(2);
    await client.ask(deleteFile, fake);
    expect(await client.read(nameOf(makeSliceId(idOf(fake), trunk.entries[0]!, 'txt')))).toBe(2);
  });

  it('are deleted for good, one by one, across restarts', async () => {
    const folder = temporaryFolder();
    const { storage, client, slices } = await loaded(folder);
    expect((await client.ask(deleteFile, slices[0]!)).status).toBe(0);
    expect((await client.ask(deleteFile, slices[0]!)).status).toBe(2);
    expect((await client.ask(deleteFile, slices[1]!)).status).toBe(0);
    await storage.close();
    const again = await (await storageOf({ folder })).connect();
    for (const index of [0, 1]) {
      expect(await again.read(slices[index]!)).toBe(2);
      expect((await again.ask(queryFileInfo, slices[index]!)).status).toBe(2);
      expect((await again.ask(deleteFile, slices[index]!)).status).toBe(2);
    }
    expect(await again.has(slices[2]!, CONTENTS[2]!)).toBe(true);
    expect(await again.has(slices[3]!, CONTENTS[3]!)).toBe(true);
  });

  it('are deleted once when many ask at the same time', async () => {
    const { storage, slices, list } = await loaded();
    const statuses = await Promise.all(
      Array.from({ length: 8 }, async () => {
        const client = await storage.connect();
        return (await client.ask(deleteFile, slices[0]!)).status;
      }),
    );
    expect(statuses.sort()).toEqual([0, 2, 2, 2, 2, 2, 2, 2]);
    expect(readFileSync(list).length).toBe(24);
  });

  it('go with their trunk, and the list of deleted ones too', async () => {
    const { storage, client, slices, file, list } = await loaded();
    await client.ask(deleteFile, slices[0]!);
    expect(existsSync(list)).toBe(true);
    expect((await client.ask(deleteFile, file)).status).toBe(0);
    expect(await filesIn(storage.folder)).toEqual([]);
    expect(await client.read(slices[2]!)).toBe(2);
    expect((await client.ask(deleteFile, file)).status).toBe(2);
  });
});

describe('the list of deleted slices', () => {
  it('has the bytes that FORMAT.md describes', async () => {
    const { client, trunk, slices, list } = await loaded();
    await client.ask(deleteFile, slices[2]!);
    const record = readFileSync(list);
    const { offset, size, crc32: sum } = trunk.entries[2]!;
    expect(record.length).toBe(24);
    expect(record.toString('latin1', 0, 4)).toBe('SVDL');
    expect([4, 8, 12].map((at) => record.readUInt32BE(at))).toEqual([offset, size, sum]);
    expect(record.readUInt32BE(20)).toBe(crc32(record.subarray(0, 20)));
  });

  it('is no file of a client', async () => {
    const { storage, client, file, slices, list } = await loaded();
    await client.ask(deleteFile, slices[0]!);
    const name = { group: file.group, name: `${file.name}-deleted` };
    expect((await client.ask(queryFileInfo, name)).status).toBe(2);
    expect(await client.read(name)).toBe(2);
    expect((await client.ask(deleteFile, name)).status).toBe(2);
    expect(existsSync(list)).toBe(true);
    expect(storage.errors).toEqual([]);
  });

  it('loses an unfinished record at its end and is written on from there', async () => {
    const folder = temporaryFolder();
    const { storage, client, slices, list } = await loaded(folder);
    await client.ask(deleteFile, slices[0]!);
    await client.ask(deleteFile, slices[2]!);
    await storage.close();
    truncateSync(list, 40);
    const again = await storageOf({ folder });
    const second = await again.connect();
    expect(await second.read(slices[0]!)).toBe(2);
    expect(await second.has(slices[2]!, CONTENTS[2]!)).toBe(true);
    await second.ask(deleteFile, slices[3]!);
    expect(readFileSync(list).length).toBe(48);
    expect(await second.read(slices[3]!)).toBe(2);
    expect(again.errors).toEqual([]);
  });

  it('reports a damaged record and believes the others', async () => {
    const folder = temporaryFolder();
    const { storage, client, slices, list } = await loaded(folder);
    for (const index of [0, 2, 3]) await client.ask(deleteFile, slices[index]!);
    await storage.close();
    const bytes = readFileSync(list);
    bytes[24 + 7]! ^= 1;
    await writeFile(list, bytes);
    const again = await storageOf({ folder });
    const second = await again.connect();
    expect(await second.read(slices[0]!)).toBe(2);
    expect(await second.read(slices[3]!)).toBe(2);
    expect(await second.has(slices[2]!, CONTENTS[2]!)).toBe(true);
    expect(again.errors.map((error) => error.message)).toEqual([
      expect.stringContaining('1 damaged'),
    ]);
  });

  it('may hold anything at its end without harm', async () => {
    const folder = temporaryFolder();
    const { storage, client, slices, list } = await loaded(folder);
    await client.ask(deleteFile, slices[0]!);
    await storage.close();
    await appendFile(list, Buffer.alloc(24 * 3 + 5));
    const second = await (await storageOf({ folder })).connect();
    expect(await second.read(slices[0]!)).toBe(2);
    expect((await second.ask(deleteFile, slices[2]!)).status).toBe(0);
    expect(await second.read(slices[2]!)).toBe(2);
  });
});

import { existsSync, readFileSync } from 'node:fs';
import { crc32 } from 'node:zlib';
import {
  type AppendRequest,
  appendFile,
  decodeFields,
  deleteFile,
  downloadFile,
  encodeMetadata,
  encodeRequestHead,
  getMetadata,
  modifyFile,
  queryFileInfo,
  regenerateAppender,
  setMetadata,
  sizeOfField,
  truncateFile,
  uploadSlaveFile,
} from '@stevedore/protocol';
import { describe, expect, it } from 'vitest';
import {
  filesIn,
  idOf,
  pathOf,
  type RawClient,
  storageOf,
  until,
} from '../../support/storage/support.js';
import { watchedDisk } from '../../support/watched-disk.js';

/** Files that change, and files and texts that hang on others. */

/** Sends a slave of a few bytes. */
const slave = (client: RawClient, master: string, prefix: string, extension = 'txt') =>
  client.bring(uploadSlaveFile, { master, size: 5, prefix, extension }, Buffer.from('slave'));

describe('an appender', () => {
  it.each([100, 3_000_000])('grows by %d bytes again and again', async (bytes) => {
    const storage = await storageOf();
    const client = await storage.connect();
    const file = await client.appender(Buffer.from('start'));
    let expected = Buffer.from('start');
    for (let turn = 0; turn < 3; turn++) {
      const piece = Buffer.alloc(bytes, turn + 1);
      expect(await client.append(file, piece)).toBe(0);
      expected = Buffer.concat([expected, piece]);
      expect(await client.has(file, expected)).toBe(true);
      const { answer } = await client.ask(queryFileInfo, file);
      expect(answer).toMatchObject({ size: expected.length, crc32: crc32(expected) });
      expect((await client.ask(queryFileInfo, file, 1)).answer!.crc32).toBe(0);
    }
    expect(await filesIn(storage.folder)).toHaveLength(1);
  });

  it('gives all appends of many clients one after the other', async () => {
    const storage = await storageOf();
    const first = await storage.connect();
    const file = await first.appender(Buffer.alloc(0));
    const clients = await Promise.all(Array.from({ length: 8 }, () => storage.connect()));
    await Promise.all(
      clients.map(async (client, index) => {
        for (let turn = 0; turn < 10; turn++) {
          expect(await client.append(file, Buffer.alloc(1000, index))).toBe(0);
        }
      }),
    );
    const content = (await first.read(file)) as Buffer;
    expect(content.length).toBe(80_000);
    const counts = new Map<number, number>();
    for (let at = 0; at < content.length; at += 1000) {
      const part = content.subarray(at, at + 1000);
      expect(part.equals(Buffer.alloc(1000, part[0]))).toBe(true);
      counts.set(part[0]!, (counts.get(part[0]!) ?? 0) + 1);
    }
    expect([...counts.values()]).toEqual(Array.from({ length: 8 }, () => 10));
  });

  it.each([5000, 500_000])(
    'stays as it was when the client of %d bytes goes away',
    async (size) => {
      const storage = await storageOf();
      const client = await storage.connect();
      const file = await client.appender(Buffer.from('whole'));
      for (const change of ['append', 'modify'] as const) {
        const rude = await storage.connect();
        const request: AppendRequest = { name: file.name, size };
        const head =
          change === 'append'
            ? encodeRequestHead(appendFile, request)
            : encodeRequestHead(modifyFile, { ...request, offset: 1 });
        const sent = Buffer.concat([head, Buffer.alloc(size - 1, 'x')]);
        await new Promise((resolve) => rude.socket.write(sent, resolve));
        rude.socket.resetAndDestroy();
        await until(async () => (await filesIn(storage.folder)).length === 1);
        expect(String(await client.read(file))).toBe('whole');
      }
      expect(storage.errors).toEqual([]);
    },
  );

  it('gives a slow reader the file as it was, whatever changes meanwhile', async () => {
    let reads = 0;
    const disk = watchedDisk(({ operation, path }, run) => {
      if (operation === 'readAt' && path.endsWith('.log')) reads += 1;
      return run();
    });
    const storage = await storageOf({ disk });
    const client = await storage.connect();
    const before = Buffer.alloc(12_000_000, 'a');
    const file = await client.appender(before);
    const slow = await storage.connect();
    slow.socket.pause();
    const whole = slow.ask(downloadFile, { ...file, offset: 0, length: 0 });
    await until(() => reads > 0);
    expect(await client.append(file, Buffer.from('tail'))).toBe(0);
    expect(await client.modify(file, 11_999_000, Buffer.alloc(1000, 'b'))).toBe(0);
    expect((await client.ask(truncateFile, { name: file.name, size: 11_999_500 })).status).toBe(0);
    slow.socket.resume();
    expect((await whole).answer!.equals(before)).toBe(true);
    const after = (await client.read(file)) as Buffer;
    expect(after.length).toBe(11_999_500);
    expect(after.subarray(11_998_990, 11_999_010).toString()).toBe('aaaaaaaaaabbbbbbbbbb');
    expect(await filesIn(storage.folder)).toHaveLength(1);
  });

  it('answers 28 to a growth beyond the disk and keeps what it has', async () => {
    const storage = await storageOf();
    const client = await storage.connect();
    const file = await client.appender(Buffer.from('small'));
    expect((await client.ask(truncateFile, { name: file.name, size: 2 ** 50 })).status).toBe(28);
    expect((await client.ask(queryFileInfo, file)).answer!.size).toBe(5);
    client.send(encodeRequestHead(appendFile, { name: file.name, size: 2 ** 50 }));
    expect((await client.reply())!.status).toBe(28);
    await client.ended();
  });

  it('becomes a normal file that keeps its tail, content and metadata', async () => {
    const storage = await storageOf();
    const client = await storage.connect();
    const file = await client.appender(Buffer.from('one'), 'txt');
    await client.append(file, Buffer.from(', two'));
    const metadata = encodeMetadata({ author: 'x' });
    await client.ask(setMetadata, { ...file, mode: 'overwrite', metadata });
    const { answer } = await client.ask(regenerateAppender, { name: file.name });
    const renamed = answer!;
    expect(renamed.name.slice(0, 10)).toBe(file.name.slice(0, 10));
    expect(renamed.name.slice(-7)).toBe(file.name.slice(-7));
    const fields = decodeFields(idOf(renamed).base);
    expect(sizeOfField(fields.sizeField)).toBe(8);
    expect(fields.crc32).toBe(crc32('one, two'));
    expect(String(await client.read(renamed))).toBe('one, two');
    expect((await client.ask(getMetadata, renamed)).answer!.equals(metadata)).toBe(true);
    expect((await client.ask(queryFileInfo, file)).status).toBe(2);
    expect((await client.ask(getMetadata, file)).status).toBe(2);
    expect(await client.append(renamed, Buffer.from('more'))).toBe(22);
  });
});

it('metadata keeps any bytes, sorted by name, and goes with its file', async () => {
  const storage = await storageOf();
  const client = await storage.connect();
  const file = await client.upload(Buffer.from('content'));
  const metadata = Buffer.from('b\x02\xff\xfe\x01B\x02\x01a\x02x=y', 'latin1');
  await client.ask(setMetadata, { ...file, mode: 'overwrite', metadata });
  const sorted = 'B\x02\x01a\x02x=y\x01b\x02\xff\xfe';
  expect((await client.ask(getMetadata, file)).answer!.toString('latin1')).toBe(sorted);
  expect(readFileSync(`${pathOf(storage.folder, file)}-m`, 'latin1')).toBe(sorted);
  // What is cut is cut silently, as the C storage does.
  const long = Buffer.from(`${'k'.repeat(70)}\x02${'v'.repeat(300)}`);
  await client.ask(setMetadata, { ...file, mode: 'merge', metadata: long });
  const { answer } = await client.ask(getMetadata, file);
  expect(answer!.toString('latin1')).toBe(`${sorted}\x01${'k'.repeat(64)}\x02${'v'.repeat(256)}`);
  const hidden = { ...file, name: `${file.name}-m` };
  expect((await client.ask(queryFileInfo, hidden)).status).toBe(2);
  expect((await client.ask(deleteFile, file)).status).toBe(0);
  expect(existsSync(`${pathOf(storage.folder, file)}-m`)).toBe(false);
});

describe('a slave', () => {
  it('cannot take a name that means something else to the storage', async () => {
    const environment = { now: () => 1_800_000_000_000, uptimeMs: () => 0, random: () => 0 };
    const storage = await storageOf({ environment });
    const { name } = await (await storage.connect()).upload(Buffer.from('master'), 'merged');
    const attempts = [
      ['-m', ''],
      ['_x-m', ''],
      ['-deleted', ''],
      ['', 'txt'],
      ['_a/b', 'txt'],
      ['_a', 'x/y'],
    ] as const;
    for (const [prefix, extension] of attempts) {
      const client = await storage.connect();
      expect((await slave(client, name, prefix, extension)).status).toBe(22);
    }
    // A slave of a slave can spell out a slice id, character for character.
    const rest = Buffer.alloc(16);
    rest.writeBigUInt64BE((1n << 63n) + 100n);
    const spelled = rest.toString('base64url');
    const client = await storage.connect();
    const { answer } = await slave(client, name, spelled.slice(0, 16), '');
    expect((await slave(client, answer!.name, spelled.slice(16), 'jpg')).status).toBe(22);
    expect(await filesIn(storage.folder)).toHaveLength(2);
  });

  it('is stored once when two clients send it at the same time', async () => {
    const storage = await storageOf();
    const clients = await Promise.all([storage.connect(), storage.connect()]);
    const { name } = await clients[0]!.upload(Buffer.from('master'));
    const both = await Promise.all(clients.map((client) => slave(client, name, '_s', 'txt')));
    expect(both.map(({ status }) => status).sort()).toEqual([0, 17]);
  });
});

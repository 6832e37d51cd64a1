import { existsSync, readFileSync } from 'node:fs';
import { crc32 } from 'node:zlib';
import {
  type AppendRequest,
  appendFile,
  createLink,
  decodeFields,
  deleteFile,
  downloadFile,
  encodeMetadata,
  encodeRequestHead,
  type FileName,
  getMetadata,
  modifyFile,
  queryFileInfo,
  regenerateAppender,
  setMetadata,
  sizeOfField,
  truncateFile,
  uploadAppenderFile,
  uploadSlaveFile,
} from '@stevedore/protocol';
import { describe, expect, it } from 'vitest';
import { filesIn, idOf, pathOf, type RawClient, storageOf, until } from './support.js';

/** Files that change, and files and texts that hang on others. */

async function uploadAppender(client: RawClient, content: Buffer, extension = 'log') {
  const head = { storePathIndex: 0, size: content.length, extension };
  client.send(encodeRequestHead(uploadAppenderFile, head));
  const { status, body } = await client.exchange(content);
  expect(status).toBe(0);
  return uploadAppenderFile.reply.decode(body);
}

async function append(client: RawClient, { name }: FileName, content: Buffer): Promise<number> {
  client.send(encodeRequestHead(appendFile, { name, size: content.length }));
  return (await client.exchange(content)).status;
}

async function modify(client: RawClient, { name }: FileName, offset: number, content: Buffer) {
  client.send(encodeRequestHead(modifyFile, { name, offset, size: content.length }));
  return (await client.exchange(content)).status;
}

async function slave(
  client: RawClient,
  master: string,
  prefix: string,
  extension: string,
  content = Buffer.from('slave'),
) {
  client.send(
    encodeRequestHead(uploadSlaveFile, { master, size: content.length, prefix, extension }),
  );
  const { status, body } = await client.exchange(content);
  return { status, file: status === 0 ? uploadSlaveFile.reply.decode(body) : undefined };
}

const read = async (client: RawClient, file: FileName) =>
  (await client.ask(downloadFile, { ...file, offset: 0, length: 0 })).answer;

describe('an appender', () => {
  it.each([100, 3_000_000])('grows by %d bytes again and again', async (bytes) => {
    const storage = await storageOf();
    const client = await storage.connect();
    const file = await uploadAppender(client, Buffer.from('start'));
    let expected = Buffer.from('start');
    for (let turn = 0; turn < 3; turn++) {
      const piece = Buffer.alloc(bytes, turn + 1);
      expect(await append(client, file, piece)).toBe(0);
      expected = Buffer.concat([expected, piece]);
      expect((await read(client, file))!.equals(expected)).toBe(true);
      const { answer } = await client.ask(queryFileInfo, file);
      expect(answer).toMatchObject({ size: expected.length, crc32: crc32(expected) });
      expect((await client.ask(queryFileInfo, file, 1)).answer!.crc32).toBe(0);
    }
    expect(await filesIn(storage.folder)).toHaveLength(1);
  });

  it('gives all appends of many clients one after the other', async () => {
    const storage = await storageOf();
    const first = await storage.connect();
    const file = await uploadAppender(first, Buffer.alloc(0));
    const clients = await Promise.all(Array.from({ length: 8 }, () => storage.connect()));
    await Promise.all(
      clients.map(async (client, index) => {
        for (let turn = 0; turn < 10; turn++) {
          expect(await append(client, file, Buffer.alloc(1000, index))).toBe(0);
        }
      }),
    );
    const content = (await read(first, file))!;
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
      const file = await uploadAppender(client, Buffer.from('whole'));
      for (const change of ['append', 'modify'] as const) {
        const rude = await storage.connect();
        const request: AppendRequest = { name: file.name, size };
        rude.send(
          change === 'append'
            ? encodeRequestHead(appendFile, request)
            : encodeRequestHead(modifyFile, { ...request, offset: 1 }),
        );
        rude.send(Buffer.alloc(size - 1, 'x'));
        await new Promise((resolve) => setTimeout(resolve, 30));
        rude.socket.resetAndDestroy();
        await until(async () => (await filesIn(storage.folder)).length === 1);
        expect((await read(client, file))!.toString()).toBe('whole');
      }
      expect(storage.errors).toEqual([]);
    },
  );

  it('gives a slow reader the file as it was, whatever changes meanwhile', async () => {
    const storage = await storageOf({ readChunkBytes: 65_536 });
    const client = await storage.connect();
    const before = Buffer.alloc(12_000_000, 'a');
    const file = await uploadAppender(client, before);
    const slow = await storage.connect();
    slow.socket.pause();
    const whole = slow.ask(downloadFile, { ...file, offset: 0, length: 0 });
    await new Promise((resolve) => setTimeout(resolve, 100));
    expect(await append(client, file, Buffer.from('tail'))).toBe(0);
    expect(await modify(client, file, 11_999_000, Buffer.alloc(1000, 'b'))).toBe(0);
    expect((await client.ask(truncateFile, { name: file.name, size: 11_999_500 })).status).toBe(0);
    slow.socket.resume();
    expect((await whole).answer!.equals(before)).toBe(true);
    const after = (await read(client, file))!;
    expect(after.length).toBe(11_999_500);
    expect(after.subarray(11_998_990, 11_999_010).toString()).toBe('aaaaaaaaaabbbbbbbbbb');
    expect(await filesIn(storage.folder)).toHaveLength(1);
  });

  it('answers 28 to a growth beyond the disk and keeps what it has', async () => {
    const storage = await storageOf();
    const client = await storage.connect();
    const file = await uploadAppender(client, Buffer.from('small'));
    expect((await client.ask(truncateFile, { name: file.name, size: 2 ** 50 })).status).toBe(28);
    expect((await client.ask(queryFileInfo, file)).answer!.size).toBe(5);
    client.send(encodeRequestHead(appendFile, { name: file.name, size: 2 ** 50 }));
    expect((await client.reply())!.status).toBe(28);
    await client.ended();
  });

  it('becomes a normal file that keeps its tail, content and metadata', async () => {
    const storage = await storageOf();
    const client = await storage.connect();
    const file = await uploadAppender(client, Buffer.from('one'), 'txt');
    await append(client, file, Buffer.from(', two'));
    const metadata = encodeMetadata({ author: 'x' });
    await client.ask(setMetadata, { ...file, mode: 'overwrite', metadata });
    const { answer } = await client.ask(regenerateAppender, { name: file.name });
    const renamed = answer!;
    expect(renamed.name.slice(0, 10)).toBe(file.name.slice(0, 10));
    expect(renamed.name.slice(-7)).toBe(file.name.slice(-7));
    const fields = decodeFields(idOf(renamed).base);
    expect(sizeOfField(fields.sizeField)).toBe(8);
    expect(fields.crc32).toBe(crc32('one, two'));
    expect((await read(client, renamed))!.toString()).toBe('one, two');
    expect((await client.ask(getMetadata, renamed)).answer!.equals(metadata)).toBe(true);
    expect((await client.ask(queryFileInfo, file)).status).toBe(2);
    expect((await client.ask(getMetadata, file)).status).toBe(2);
    expect(await append(client, renamed, Buffer.from('more'))).toBe(22);
  });
});

describe('metadata', () => {
  it('keeps any bytes, sorted by name, and goes with its file', async () => {
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
    const { file } = await slave(client, name, spelled.slice(0, 16), '');
    expect(file).toBeDefined();
    expect((await slave(client, file!.name, spelled.slice(16), 'jpg')).status).toBe(22);
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

describe('a link', () => {
  it('leads to its file for as long as that is there', async () => {
    const storage = await storageOf();
    const client = await storage.connect();
    const file = await client.upload(Buffer.from('linked'));
    const rest = { group: 'group1', prefix: '', extension: 'lnk', signature: 'any' };
    const { answer } = await client.ask(createLink, { ...rest, master: '', source: file.name });
    const link = answer!;
    expect((await read(client, link))!.toString()).toBe('linked');
    const again = await client.ask(createLink, { ...rest, master: '', source: link.name });
    expect((await client.ask(deleteFile, link)).status).toBe(0);
    expect((await read(client, again.answer!))!.toString()).toBe('linked');
    const named = { ...rest, master: file.name, prefix: '_l', source: file.name };
    expect((await client.ask(createLink, named)).status).toBe(0);
    expect((await client.ask(createLink, named)).status).toBe(17);
    expect((await client.ask(deleteFile, file)).status).toBe(0);
    expect((await client.ask(queryFileInfo, again.answer!)).status).toBe(2);
    const appender = await uploadAppender(client, Buffer.from('changes'));
    const refused = { ...rest, master: '', source: appender.name };
    expect((await client.ask(createLink, refused)).status).toBe(22);
  });
});

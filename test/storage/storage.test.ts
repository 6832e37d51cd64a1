import { existsSync, readFileSync, statSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { crc32 } from 'node:zlib';
import {
  ANY_STORE_PATH,
  decodeFields,
  deleteFile,
  downloadFile,
  encodeRequestHead,
  type FileName,
  queryFileInfo,
  sizeOfField,
  uploadFile,
} from '@stevedore/protocol';
import { describe, expect, it } from 'vitest';
import { temporaryFolder } from '../support/temporary.js';
import { bodyOf, frameVector, frameVectors } from '../support/vectors.js';
import { filesIn, idOf, pathOf, type RawClient, rawVectors, storageOf } from './support.js';

const plain = frameVectors('storage').filter((each) => each.cluster === 'plain');
const recordedUploads = plain.filter((each) => each.cmd === uploadFile.code && each.status === 0);

/** A recorded request about a recorded file, asked about the file just uploaded. */
function about(op: string, file: FileName): Buffer {
  const request = Buffer.from(frameVector('storage', op).request_hex, 'hex');
  request.write(file.name, request.length - file.name.length, 'latin1');
  return request;
}

async function recordedUpload(client: RawClient, op: string): Promise<FileName> {
  const reply = await client.exchange(frameVector('storage', op).request_hex);
  expect(reply.status).toBe(0);
  return uploadFile.reply.decode(reply.body);
}

describe('a storage', () => {
  it.each(recordedUploads)(
    'stores the recorded $op under a name of the same form',
    async (vector) => {
      const storage = await storageOf();
      const client = await storage.connect();
      const reply = await client.exchange(vector.request_hex);
      expect(reply).toMatchObject({ command: 100, status: 0 });
      const name = uploadFile.reply.decode(reply.body);
      const recorded = uploadFile.reply.decode(bodyOf(vector.response_hex!));
      expect(reply.body.length).toBe(bodyOf(vector.response_hex!).length);
      expect(name.group).toBe(recorded.group);
      expect(name.name.slice(0, 10)).toBe(recorded.name.slice(0, 10));
      const own = decodeFields(idOf(name).base);
      const theirs = decodeFields(idOf(recorded).base);
      expect(own.crc32).toBe(theirs.crc32);
      expect(sizeOfField(own.sizeField)).toBe(sizeOfField(theirs.sizeField));
      expect(own.sizeField >> 55n).toBe(theirs.sizeField >> 55n);
      expect(own.source).toBe('127.0.0.1');
      const tail = (text: string) =>
        text.slice(-7).replace(/^\d+/, (digits) => '#'.repeat(digits.length));
      expect(tail(name.name)).toBe(tail(recorded.name));
      const content = readFileSync(pathOf(storage.folder, name));
      expect(content.equals(Buffer.from(vector.request_hex, 'hex').subarray(25))).toBe(true);
      expect(Math.floor(statSync(pathOf(storage.folder, name)).mtimeMs / 1000)).toBe(
        own.createdAtSeconds,
      );
    },
  );

  it.each([
    'storage.download.whole',
    'storage.download.offset_only',
    'storage.download.offset_and_bytes',
    'storage.download.bytes_only',
    'storage.download.bytes_beyond_end',
    'storage.download.offset_eq_size',
    'storage.download.offset_gt_size',
    'storage.download.negative_offset',
    'storage.download.missing',
    'storage.download.bad_group',
    'storage.delete.txt',
    'storage.delete.missing',
    'storage.delete.bad_group',
    'storage.query_file_info.missing',
    'storage.query_file_info.missing.silent_flags3',
  ])('answers the recorded %s byte for byte', async (op) => {
    const storage = await storageOf();
    const client = await storage.connect();
    const file = await recordedUpload(client, 'storage.upload.buff.13.txt');
    const vector = frameVector('storage', op);
    const request = op.includes('missing')
      ? Buffer.from(vector.request_hex, 'hex')
      : about(op, file);
    const reply = await client.exchange(request);
    expect(reply.status).toBe(vector.status);
    expect(reply.body.toString('hex')).toBe(bodyOf(vector.response_hex!).toString('hex'));
    expect(await client.isOpen()).toBe(vector.status !== 22);
  });

  it.each([
    ['storage.upload.buff.13.txt', 'storage.query_file_info.txt'],
    ['storage.upload.buff.300.bin', 'storage.query_file_info.bin'],
    ['storage.upload.buff.1.noext', 'storage.query_file_info.noext'],
    ['storage.upload.empty_file', 'storage.query_file_info.empty'],
  ])('after %s answers %s but for time and address', async (upload, query) => {
    const storage = await storageOf();
    const client = await storage.connect();
    const file = await recordedUpload(client, upload);
    const { body } = await client.exchange(about(query, file));
    const recorded = bodyOf(frameVector('storage', query).response_hex!);
    expect(body.length).toBe(recorded.length);
    expect(queryFileInfo.reply.decode(body)).toEqual({
      ...queryFileInfo.reply.decode(recorded),
      mtimeSeconds: decodeFields(idOf(file).base).createdAtSeconds,
      sourceAddress: '127.0.0.1',
    });
    expect(body.subarray(16, 24).equals(recorded.subarray(16, 24))).toBe(true);
  });

  it('refuses the download of an empty file as recorded', async () => {
    const storage = await storageOf();
    const client = await storage.connect();
    const file = await recordedUpload(client, 'storage.upload.empty_file');
    const vector = frameVector('storage', 'storage.download.empty_file');
    expect((await client.exchange(about(vector.op, file))).status).toBe(vector.status);
  });

  it.each([
    'storage.download.bad_path_index',
    'storage.download.bad_name_traversal',
    'storage.delete.bad_name',
    'storage.upload.bad_path_index',
    'storage.upload.bad_ext',
  ])('refuses the recorded %s and closes', async (op) => {
    const storage = await storageOf();
    const client = await storage.connect();
    const vector = frameVector('storage', op);
    expect((await client.exchange(vector.request_hex)).status).toBe(vector.status);
    await client.ended();
    expect(await filesIn(storage.folder)).toEqual([]);
  });

  it.each(rawVectors('storage'))('answers the hand-made $op', async (vector) => {
    const storage = await storageOf();
    const client = await storage.connect();
    client.send(vector.request_hex);
    if (vector.response_hex === null) {
      await client.ended();
      return;
    }
    const reply = (await client.reply())!;
    expect(reply.status).toBe(vector.status);
    expect(reply.body.length).toBe(bodyOf(vector.response_hex).length);
    if (vector.server_closed_after) await client.ended();
    else expect(await client.isOpen()).toBe(true);
  });

  it('keeps a file of many buffers and gives back any part of it', async () => {
    const storage = await storageOf({ receiveBufferBytes: 65_536, readChunkBytes: 10_000 });
    const client = await storage.connect();
    const content = Buffer.from(Uint8Array.from({ length: 3_000_001 }, (_, index) => index * 131));
    const file = await client.upload(content, 'bin');
    expect(decodeFields(idOf(file).base).crc32).toBe(crc32(content));
    for (const [offset, length] of [
      [0, 0],
      [2_999_999, 0],
      [9_999, 20_002],
      [1, 3_000_000],
    ] as const) {
      const { answer } = await client.ask(downloadFile, { ...file, offset, length });
      const end = length === 0 ? content.length : offset + length;
      expect(answer!.equals(content.subarray(offset, end))).toBe(true);
    }
  });

  it('forgets a deleted file, even one it holds open', async () => {
    const storage = await storageOf();
    const client = await storage.connect();
    const file = await client.upload(Buffer.from('content'));
    await client.ask(downloadFile, { ...file, offset: 0, length: 0 });
    expect((await client.ask(deleteFile, file)).status).toBe(0);
    expect((await client.ask(downloadFile, { ...file, offset: 0, length: 0 })).status).toBe(2);
    expect((await client.ask(queryFileInfo, file)).status).toBe(2);
    expect((await client.ask(deleteFile, file)).status).toBe(2);
    expect(existsSync(pathOf(storage.folder, file))).toBe(false);
  });

  it('moves on to the next directories and goes on there after a restart', async () => {
    const folder = temporaryFolder();
    const options = { folder, filesPerDirectory: 2, subdirectoriesPerPath: 2 };
    const directories: string[] = [];
    for (let run = 0; run < 2; run++) {
      const storage = await storageOf(options);
      const client = await storage.connect();
      for (let index = 0; index < 5; index++) {
        directories.push((await client.upload(Buffer.from(`${index}`))).name.slice(4, 9));
      }
      await storage.close();
    }
    expect(directories).toEqual([
      ...['00/00', '00/00', '00/01', '00/01', '01/00'],
      ...['01/00', '01/01', '01/01', '00/00', '00/00'],
    ]);
  });

  it('uses every store path in turns when asked to choose', async () => {
    const folders = [temporaryFolder(), temporaryFolder()];
    const storage = await storageOf({ storePaths: folders });
    const client = await storage.connect();
    const paths: string[] = [];
    for (let index = 0; index < 4; index++) {
      const file = await client.upload(Buffer.from(`${index}`), 'txt', ANY_STORE_PATH);
      paths.push(file.name.slice(0, 3));
      expect(existsSync(pathOf(folders[index % 2]!, file))).toBe(true);
    }
    expect(paths).toEqual(['M00', 'M01', 'M00', 'M01']);
  });

  it('draws new random bits when a file of the name is there', async () => {
    // Every draw is 0 until the test says otherwise, so that two equal files clash.
    let bits = 0;
    const environment = {
      now: () => 1_800_000_000_000,
      uptimeMs: () => 0,
      random: (limit: number) => (limit === 2 ** 23 ? bits++ >> 1 : 0),
    };
    const storage = await storageOf({ environment });
    const client = await storage.connect();
    const names = new Set<string>();
    for (let index = 0; index < 4; index++) {
      names.add((await client.upload(Buffer.from('same'))).name);
    }
    expect(names.size).toBe(4);
    expect((await filesIn(storage.folder)).length).toBe(4);
  });

  it('answers 28 when the disk has no room, and goes on', async () => {
    const storage = await storageOf();
    const client = await storage.connect();
    client.send(
      encodeRequestHead(uploadFile, { storePathIndex: 0, size: 2 ** 50, extension: 'bin' }),
    );
    expect((await client.reply())!.status).toBe(28);
    await client.ended();
    const other = await storage.connect();
    expect((await other.upload(Buffer.from('small'))).group).toBe('group1');
  });

  it('removes what a crash has left of uploads', async () => {
    const folder = temporaryFolder();
    await mkdir(join(folder, 'data', '.tmp'), { recursive: true });
    await writeFile(join(folder, 'data', '.tmp', '1-abc'), 'half a file');
    await storageOf({ folder });
    expect(await filesIn(folder)).toEqual([]);
  });

  it('rejects options and directories it cannot work with', async () => {
    const folder = temporaryFolder();
    const file = join(folder, 'file');
    await writeFile(file, '');
    await expect(storageOf({ storePaths: [join(file, 'below')] })).rejects.toMatchObject({
      code: 'ENOTDIR',
    });
    await expect(storageOf({ storePaths: [] })).rejects.toMatchObject({ code: 'invalid_option' });
    await expect(storageOf({ group: 'not a group' })).rejects.toMatchObject({
      code: 'invalid_option',
    });
    await expect(
      storageOf({ maxControlBodyBytes: 9000, receiveBufferBytes: 8000 }),
    ).rejects.toThrow('must fit receiveBufferBytes');
    const taken = await storageOf();
    await expect(storageOf({ port: taken.port })).rejects.toMatchObject({
      code: 'EADDRINUSE',
      message: expect.stringContaining(String(taken.port)),
    });
  });
});

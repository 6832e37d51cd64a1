import { createWriteStream } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { pipeline } from 'node:stream/promises';
import { describe, expect, it } from 'vitest';
import { replyFrame } from '../../support/cluster/index.js';
import { Chunks, chunksOf, clientOf, failure, goodServer, until } from '../../support/fastdfs.js';
import { HELLO, HELLO_ID } from '../../support/good-server.js';
import { quiet } from '../../support/quiet.js';
import { temporaryFolder } from '../../support/temporary.js';
import { frameVector } from '../../support/vectors.js';

const MiB = 1024 * 1024;

describe('upload', () => {
  it.each([0, 1, 1024, 64 * 1024, 64 * 1024 + 1, 3 * MiB])(
    'sends %i bytes of an array whole',
    async (size) => {
      const server = await goodServer();
      const body = Buffer.alloc(size, 'stevedore ');
      const client = clientOf(server.address);
      expect(await client.upload(body)).toBe(HELLO_ID);
      expect(await client.upload(new Uint8Array(body))).toBe(HELLO_ID);
      expect(server.uploads.map((upload) => upload.equals(body))).toEqual([true, true]);
    },
  );

  it('sends an iterable in order, empty chunks and all', async () => {
    const server = await goodServer();
    const chunks = [Buffer.alloc(0), ...chunksOf(40, 70_001), Buffer.alloc(0)];
    const whole = Buffer.concat(chunks);
    const body = new Chunks(chunks);
    await clientOf(server.address).upload(body, { size: whole.length });
    expect(server.uploads[0]!.equals(whole)).toBe(true);
  });

  it('sends an iterable of no bytes', async () => {
    const server = await goodServer();
    expect(await clientOf(server.address).upload(new Chunks([]), { size: 0 })).toBe(HELLO_ID);
    expect(server.uploads[0]!.length).toBe(0);
  });

  it('does not run ahead of a server that does not read', async () => {
    const server = await goodServer();
    let release = (): void => {};
    server.onHeader = ({ command, socket }) => {
      if (command !== 11) return false;
      socket.pause();
      release = () => {
        server.onHeader = undefined;
        socket.resume();
        socket.on('data', () => {});
      };
      return true;
    };
    const body = new Chunks(chunksOf(64, MiB));
    const client = clientOf(server.address, { idleTimeoutMs: 1_000 });
    const error = await failure(client.upload(body, { size: 64 * MiB }));
    release();
    expect(error.code).toBe('timeout');
    expect(body.pulled).toBeLessThan(48 * MiB);
    await until(() => body.returned);
  });

  it.each([
    ['fewer', [Buffer.alloc(10)], 11],
    ['more', [Buffer.alloc(10), Buffer.alloc(2)], 11],
    ['more, after the last byte fitted', [Buffer.alloc(11), Buffer.alloc(1)], 11],
    ['some instead of none', [Buffer.alloc(1)], 0],
    ['none instead of some', [], 1],
  ])('stores nothing when the body has %s', async (_, chunks, size) => {
    const server = await goodServer();
    const body = new Chunks(chunks);
    const client = clientOf(server.address);
    const error = await failure(client.upload(body, { size }));
    expect(error).toMatchObject({ code: 'length_mismatch', operation: 'upload', retryable: false });
    await until(() => body.returned);
    expect(server.uploads).toEqual([]);
    // The tracker's connection is good; that of the upload is not.
    await until(() => client.stats().open === 0 || client.stats().idle === client.stats().open);
    expect(await client.upload(HELLO)).toBe(HELLO_ID);
    expect(server.uploads.length).toBe(1);
  });

  it("passes the body's own error on and stops it", async () => {
    const server = await goodServer();
    let returned = false;
    let left = 3;
    const own = new Error('disk on fire');
    const body: AsyncIterable<Uint8Array> = {
      [Symbol.asyncIterator]: () => ({
        next: async () => {
          if (left-- === 0) throw own;
          return { done: false, value: Buffer.alloc(1000) };
        },
        return: async () => {
          returned = true;
          return { done: true, value: undefined };
        },
      }),
    };
    const client = clientOf(server.address);
    await expect(client.upload(body, { size: 10_000 })).rejects.toBe(own);
    expect(returned).toBe(true);
    expect(server.uploads).toEqual([]);
    expect(await client.upload(HELLO)).toBe(HELLO_ID);
  });

  it('refuses chunks that are no bytes', async () => {
    const server = await goodServer();
    const body = new Chunks(['text'] as unknown as Uint8Array[]);
    const error = await failure(clientOf(server.address).upload(body, { size: 4 }));
    expect(error.code).toBe('invalid_argument');
  });
});

describe('download', () => {
  it('is on disk, whole, when its pipeline is done', async () => {
    const server = await goodServer();
    server.content = Buffer.alloc(5 * MiB, 'trunk ');
    const path = join(temporaryFolder(), 'file');
    const { size, stream } = await clientOf(server.address).download(HELLO_ID);
    expect(size).toBe(server.content.length);
    await pipeline(stream, createWriteStream(path));
    expect((await readFile(path)).equals(server.content)).toBe(true);
  });

  it('keeps its connection until the last byte, and holds the server back', async () => {
    const server = await goodServer();
    server.content = Buffer.alloc(64 * MiB, 'x');
    const client = clientOf(server.address);
    const { stream } = await client.download(HELLO_ID);
    await quiet();
    expect(client.stats()).toMatchObject({ leased: 1 });
    const [socket] = server.server.sockets;
    expect(socket!.writableLength).toBeGreaterThan(16 * MiB);
    let bytes = 0;
    for await (const chunk of stream) bytes += (chunk as Buffer).length;
    expect(bytes).toBe(64 * MiB);
    expect(client.stats()).toMatchObject({ open: 1, idle: 1, leased: 0 });
  });

  it('closes its connection when the stream is destroyed', async () => {
    const server = await goodServer();
    server.content = Buffer.alloc(16 * MiB);
    const client = clientOf(server.address);
    const { stream } = await client.download(HELLO_ID);
    stream.destroy();
    await until(() => client.stats().open === 0);
    await until(() => server.server.sockets.size === 0);
    server.content = HELLO;
    expect(await client.downloadBytes(HELLO_ID)).toEqual(HELLO);
  });

  it('of a file of no bytes is empty, though stock storages refuse it', async () => {
    const server = await goodServer();
    server.content = Buffer.alloc(0);
    const info = frameVector('storage', 'storage.query_file_info.empty').response_hex!;
    server.answers.set(22, ({ socket }) => socket.write(Buffer.from(info, 'hex')));
    const client = clientOf(server.address);
    expect(await client.downloadBytes(HELLO_ID)).toEqual(Buffer.alloc(0));
    const { size, stream } = await client.download(HELLO_ID);
    expect([size, (await buffer(stream)).length]).toEqual([0, 0]);
    expect(client.stats().leased).toBe(0);
  });

  it('beyond the end is the error of the server', async () => {
    const server = await goodServer();
    const client = clientOf(server.address);
    for (const call of [
      () => client.downloadBytes(HELLO_ID, { offset: 13 }),
      () => client.download(HELLO_ID, { offset: 13 }),
    ]) {
      const error = await failure(call());
      expect(error).toMatchObject({ code: 'server_status', status: 22 });
    }
  });

  it('of length 0 asks nobody', async () => {
    const server = await goodServer();
    const client = clientOf(server.address);
    expect(await client.downloadBytes(HELLO_ID, { length: 0 })).toEqual(Buffer.alloc(0));
    expect((await client.download(HELLO_ID, { length: 0 })).size).toBe(0);
    expect(server.server.accepted).toBe(0);
  });

  it('of more than maxBytes is refused before it is read', async () => {
    const server = await goodServer();
    const client = clientOf(server.address);
    const error = await failure(client.downloadBytes(HELLO_ID, { maxBytes: 12 }));
    expect(error).toMatchObject({ code: 'too_large', fileId: HELLO_ID });
    expect(await client.downloadBytes(HELLO_ID, { maxBytes: 13 })).toEqual(HELLO);
  });

  it('of more bytes than were asked for is a bad reply', async () => {
    const server = await goodServer();
    server.answers.set(14, ({ socket }) => socket.write(replyFrame(0, Buffer.alloc(6))));
    const client = clientOf(server.address);
    for (const call of [
      () => client.downloadBytes(HELLO_ID, { length: 5 }),
      () => client.download(HELLO_ID, { length: 5 }),
    ]) {
      expect((await failure(call())).code).toBe('bad_reply');
    }
  });
});

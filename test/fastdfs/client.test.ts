import { createWriteStream } from 'node:fs';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { pipeline } from 'node:stream/promises';
import { byteByByte, replyFrame, splitAt } from '@stevedore/fastdfs/testing';
import { describe, expect, it } from 'vitest';
import { Chunks, chunksOf, clientOf, failure, goodServer, until } from '../support/fastdfs.js';
import { HELLO, HELLO_ID } from '../support/good-server.js';
import { fileIdVectors, frameVector } from '../support/vectors.js';

const MiB = 1024 * 1024;

describe('requests are byte for byte those of the C client', () => {
  const cases = [
    ['upload', 'storage.upload.buff.13.txt', 11],
    ['download', 'storage.download.whole', 14],
    ['download of a range', 'storage.download.offset_and_bytes', 14],
    ['info', 'storage.query_file_info.txt', 22],
    ['delete', 'storage.delete.txt', 12],
  ] as const;
  it.each(cases)('%s', async (what, op, command) => {
    const server = await goodServer();
    const client = clientOf(server.address);
    if (what === 'upload') await client.upload(HELLO, { extension: 'txt' });
    if (what === 'download') await client.downloadBytes(HELLO_ID);
    if (what === 'download of a range') {
      await client.downloadBytes(HELLO_ID, { offset: 6, length: 4 });
    }
    if (what === 'info') await client.info(HELLO_ID);
    if (what === 'delete') await client.delete(HELLO_ID);
    const sent = server.requests.find((request) => request.command === command)!;
    expect(sent.frame.toString('hex')).toBe(frameVector('storage', op).request_hex);
  });

  it('to the tracker', async () => {
    const server = await goodServer();
    const client = clientOf(server.address);
    await client.upload(HELLO, { extension: 'txt' });
    await client.upload(HELLO, { extension: 'txt', group: 'group1' });
    await client.info(HELLO_ID);
    await client.delete(HELLO_ID);
    await client.ping();
    const sent = new Map(server.requests.map((each) => [each.command, each.frame.toString('hex')]));
    for (const [command, op] of [
      [101, 'tracker.query_store_without_group_one'],
      [104, 'tracker.query_store_with_group_one'],
      [102, 'tracker.query_fetch_one.normal'],
      [103, 'tracker.query_update'],
      [111, 'tracker.active_test'],
    ] as const) {
      expect(sent.get(command)).toBe(frameVector('tracker', op).request_hex);
    }
  });
});

describe.each([
  ['15-byte', false],
  ['45-byte', true],
])('a tracker that answers with %s addresses', (_, wide) => {
  it('serves every call', async () => {
    const server = await goodServer();
    server.wide = wide;
    const client = clientOf(server.address);
    expect(await client.upload(HELLO, { extension: 'txt' })).toBe(HELLO_ID);
    expect(await client.downloadBytes(HELLO_ID)).toEqual(HELLO);
    expect(await buffer((await client.download(HELLO_ID)).stream)).toEqual(HELLO);
    expect(await client.info(HELLO_ID)).toEqual({
      size: 13,
      mtimeSeconds: 1795207297,
      crc32: 3294109476,
      sourceAddress: '127.0.17.3',
    });
    await client.delete(HELLO_ID);
    await client.ping();
  });
});

describe('a reply in pieces', () => {
  const calls = {
    101: (client: ReturnType<typeof clientOf>) => client.upload(HELLO, { extension: 'txt' }),
    11: (client: ReturnType<typeof clientOf>) => client.upload(HELLO, { extension: 'txt' }),
    14: (client: ReturnType<typeof clientOf>) => client.downloadBytes(HELLO_ID),
    22: (client: ReturnType<typeof clientOf>) => client.info(HELLO_ID),
  };
  it.each(Object.entries(calls))(
    'to command %s reads the same at every cut',
    async (code, call) => {
      const server = await goodServer();
      const client = clientOf(server.address);
      const expected = await call(client);
      for (let at = 1; at < 70; at++) {
        server.answers.set(Number(code), splitAt(at));
        expect(await call(client)).toEqual(expected);
      }
      server.answers.set(Number(code), byteByByte);
      expect(await call(client)).toEqual(expected);
      expect(server.server.accepted).toBe(1);
    },
  );

  it('streams the same at every cut', async () => {
    const server = await goodServer();
    const client = clientOf(server.address);
    for (let at = 1; at < 23; at++) {
      server.answers.set(14, splitAt(at));
      expect(await buffer((await client.download(HELLO_ID)).stream)).toEqual(HELLO);
    }
  });
});

describe('numbers', () => {
  it('are exact above 4 GiB, in replies and in requests', async () => {
    const server = await goodServer();
    const big = fileIdVectors().find((vector) => vector.decoded.size_in_name > 2 ** 32)!;
    server.answers.set(22, ({ socket }) =>
      socket.write(Buffer.from(big.query_response_hex, 'hex')),
    );
    server.answers.set(14, ({ socket }) => socket.write(replyFrame(0, Buffer.from('abc'))));
    const client = clientOf(server.address);
    expect((await client.info(big.file_id)).size).toBe(2 ** 32 + 5);
    await client.downloadBytes(big.file_id, { offset: 2 ** 32 + 2, length: 3 });
    const { body } = server.requests.find((request) => request.command === 14)!;
    expect(body.readBigInt64BE(0)).toBe(2n ** 32n + 2n);
  });

  it('are unsigned CRC-32s, whatever the top bit', async () => {
    const server = await goodServer();
    const client = clientOf(server.address);
    const seen = new Set<boolean>();
    for (const vector of fileIdVectors()) {
      server.answers.set(22, ({ socket }) =>
        socket.write(Buffer.from(vector.query_response_hex, 'hex')),
      );
      const { crc32 } = await client.info(vector.file_id);
      expect(crc32).toBe(vector.server_query_file_info.crc32_unsigned);
      seen.add(crc32 > 0x7fff_ffff);
    }
    expect(seen.size).toBe(2);
  });
});

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
    const directory = await mkdtemp(join(tmpdir(), 'stevedore-download-'));
    try {
      const path = join(directory, 'file');
      const { size, stream } = await clientOf(server.address).download(HELLO_ID);
      expect(size).toBe(server.content.length);
      await pipeline(stream, createWriteStream(path));
      expect((await readFile(path)).equals(server.content)).toBe(true);
    } finally {
      await rm(directory, { recursive: true, force: true });
    }
  });

  it('keeps its connection until the last byte, and holds the server back', async () => {
    const server = await goodServer();
    server.content = Buffer.alloc(64 * MiB, 'x');
    const client = clientOf(server.address);
    const { stream } = await client.download(HELLO_ID);
    await new Promise((resolve) => setTimeout(resolve, 100));
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

  it('fails in the stream when the connection ends early', async () => {
    const server = await goodServer();
    server.answers.set(14, ({ socket }) => {
      socket.end(replyFrame(0, Buffer.alloc(1000)).subarray(0, 900));
    });
    const { size, stream } = await clientOf(server.address).download(HELLO_ID);
    expect(size).toBe(1000);
    expect(await failure(buffer(stream))).toMatchObject({
      code: 'connection_lost',
      fileId: HELLO_ID,
    });
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

describe('statuses', () => {
  it.each([
    [2, 'not_found', false],
    [28, 'no_space', true],
    [11, 'busy', true],
    [16, 'busy', true],
    [22, 'server_status', false],
    [110, 'server_status', true],
  ] as const)('%i is %s', async (status, code, retryable) => {
    const server = await goodServer();
    for (const command of [11, 12, 14, 22]) {
      server.answers.set(command, ({ socket }) => socket.write(replyFrame(status)));
    }
    const client = clientOf(server.address, { busyRetries: 0 });
    const expected = { code, status, retryable, address: server.address };
    expect(await failure(client.upload(HELLO))).toMatchObject(expected);
    for (const call of [
      () => client.downloadBytes(HELLO_ID),
      () => client.download(HELLO_ID),
      () => client.info(HELLO_ID),
      () => client.delete(HELLO_ID),
    ]) {
      expect(await failure(call())).toMatchObject({
        ...expected,
        fileId: HELLO_ID,
      });
    }
    expect(client.stats().leased).toBe(0);
  });

  it('with a body are read whole, and the connection serves on', async () => {
    const server = await goodServer();
    server.answers.set(12, ({ socket }) => socket.write(replyFrame(2, Buffer.alloc(5000))));
    const client = clientOf(server.address);
    expect((await failure(client.delete(HELLO_ID))).code).toBe('not_found');
    await client.info(HELLO_ID);
    expect(server.server.accepted).toBe(1);
  });
});

describe('arguments are checked before any I/O', () => {
  it('of every call', async () => {
    const server = await goodServer();
    const client = clientOf(server.address);
    const bytes = Buffer.alloc(1);
    const bad: Promise<unknown>[] = [
      client.upload(bytes, { extension: 'toolong' }),
      client.upload(bytes, { extension: 'a/b' }),
      client.upload(bytes, { group: 'no group' }),
      client.upload(bytes, { group: '' }),
      client.upload(new Chunks([]), { size: -1 }),
      client.upload(new Chunks([]), { size: 1.5 }),
      client.upload('text' as unknown as Uint8Array, { size: 4 }),
      client.upload(null as unknown as Uint8Array, { size: 4 }),
      client.upload(bytes, { deadlineMs: 0 }),
      client.upload(bytes, { deadlineMs: Number.NaN }),
      client.download(HELLO_ID, { offset: -1 }),
      client.download(HELLO_ID, { length: 0.5 }),
      client.downloadBytes(HELLO_ID, { maxBytes: -1 }),
      ...['', 'group1', '/etc/passwd', `${HELLO_ID}\0`, HELLO_ID.replace('M00', '..')].flatMap(
        (id) => [client.download(id), client.downloadBytes(id), client.info(id), client.delete(id)],
      ),
    ];
    for (const call of bad) expect((await failure(call)).code).toBe('invalid_argument');
    expect((await failure(client.upload(bytes, { size: 2 }))).code).toBe('length_mismatch');
    expect(server.server.accepted).toBe(0);
  });
});

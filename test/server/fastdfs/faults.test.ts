import { buffer } from 'node:stream/consumers';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { FastdfsClient } from '@stevedore/fastdfs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { MISBEHAVIOURS, otherEndOf, replyFrame, runOut } from '../../support/cluster/index.js';
import { Chunks, chunksOf, clientOf, failure, goodServer, until } from '../../support/fastdfs.js';
import { HELLO, HELLO_ID } from '../../support/good-server.js';
import { frameVector } from '../../support/vectors.js';

const MiB = 1024 * 1024;

/** Errors that reached nobody: none may, in any test of this file. */
const escaped: unknown[] = [];
const onEscaped = (error: unknown): void => void escaped.push(error);
beforeAll(() => {
  process.on('unhandledRejection', onEscaped);
  process.on('uncaughtException', onEscaped);
});
afterAll(async () => {
  for (let turn = 0; turn < 100; turn += 1) await nextTurn();
  process.off('unhandledRejection', onEscaped);
  process.off('uncaughtException', onEscaped);
  expect(escaped).toEqual([]);
});

type Call = (client: FastdfsClient) => Promise<unknown>;

/** With the storage command that each ends with. */
const CALLS: readonly (readonly [what: string, command: number, call: Call])[] = [
  ['upload of an array', 11, (client) => client.upload(HELLO, { extension: 'txt' })],
  ['upload of an iterable', 11, (client) => client.upload(new Chunks([HELLO]), { size: 13 })],
  ['download in one piece', 14, (client) => client.downloadBytes(HELLO_ID)],
  ['download as a stream', 14, async (client) => buffer((await client.download(HELLO_ID)).stream)],
  ['info', 22, (client) => client.info(HELLO_ID)],
  ['delete', 12, (client) => client.delete(HELLO_ID)],
];

describe.each(MISBEHAVIOURS)('a storage that $name', ({ answer, codes }) => {
  it('fails each call, and the next one gets its own answer', async () => {
    const tried = CALLS.map(async ([what, command, call]) => {
      const server = await goodServer();
      const client = clientOf(server.address);
      const expected = await call(client);
      // On the connection just used, and then on a new one.
      server.answers.set(command, answer);
      for (let round = 0; round < 2; round++) {
        const error = await failure(call(client), what);
        expect(codes, what).toContain(error.code);
        expect(error.address).toBe(server.address);
        expect(client.stats(), what).toMatchObject({ leased: 0, queued: 0 });
      }
      server.answers.delete(command);
      expect(await call(client), what).toEqual(expected);
      expect(server.server.pipelined, what).toBe(0);
    });
    await Promise.all(tried);
  });
});

describe.each(MISBEHAVIOURS)('a tracker that $name', ({ answer }) => {
  it('fails each call with no_tracker and what happened', async () => {
    const server = await goodServer();
    for (const command of [101, 102, 103, 111]) server.answers.set(command, answer);
    const ping = ['ping', 111, (client: FastdfsClient) => client.ping()] as const;
    const tried = [...CALLS, ping].map(async ([what, , call]) => {
      const client = clientOf(server.address);
      const error = await failure(call(client), what);
      expect(error, what).toMatchObject({ code: 'no_tracker', address: server.address });
      expect(error.cause).toBeInstanceOf(Error);
      expect(client.stats(), what).toMatchObject({ leased: 0, queued: 0 });
      return client;
    });
    const clients = await Promise.all(tried);
    server.answers.clear();
    expect(await clients[0]!.upload(HELLO)).toBe(HELLO_ID);
  });
});

it('a reply that comes too late is never taken for the reply to the next call', async () => {
  const server = await goodServer();
  const client = clientOf(server.address);
  const late: (() => void)[] = [];
  server.answers.set(11, ({ socket }, good) => {
    void runOut(socket);
    late.push(() => socket.write(good));
  });
  expect((await failure(client.upload(HELLO))).code).toBe('timeout');
  const other = frameVector('storage', 'storage.upload.buff.300.bin').response_hex!;
  server.answers.set(11, ({ socket }) => {
    for (const send of late) send();
    socket.write(Buffer.from(other, 'hex'));
  });
  const otherId = 'group1/M00/00/00/fwARA2sAsIGAUgByAAABLN4OV84803.bin';
  expect(await client.upload(HELLO)).toBe(otherId);
});

describe('a server that names a file or a storage that cannot be', () => {
  it.each([
    ['no name', 'group1', ''],
    ['a path upwards', 'group1', 'M00/00/../../etc/passwd'],
    ['no group', '', HELLO_ID.slice(7)],
  ])('%s', async (_, group, name) => {
    const server = await goodServer();
    const body = Buffer.concat([Buffer.alloc(16), Buffer.from(name)]);
    body.write(group);
    server.answers.set(11, ({ socket }) => socket.write(replyFrame(0, body)));
    expect((await failure(clientOf(server.address).upload(HELLO))).code).toBe('bad_reply');
  });

  it.each([[''], ['10.0.0.1/x'], ['a b']])('storage %j', async (host) => {
    const server = await goodServer();
    server.storage = { host, port: 23000 };
    expect((await failure(clientOf(server.address).info(HELLO_ID))).code).toBe('bad_reply');
  });

  it('a storage where nobody listens', async () => {
    const gone = await goodServer();
    const port = gone.server.port;
    await gone.close();
    const server = await goodServer();
    server.storage = { host: '127.0.0.1', port };
    const error = await failure(clientOf(server.address).upload(HELLO));
    expect(error).toMatchObject({
      code: 'connect_failed',
      address: `127.0.0.1:${port}`,
      retryable: true,
    });
  });
});

describe('a storage that refuses while the body is under way', () => {
  const bodies: Readonly<Record<string, () => [Uint8Array | Chunks, number]>> = {
    array: () => [Buffer.alloc(16 * MiB, 'x'), 16 * MiB],
    iterable: () => [new Chunks(chunksOf(256, 64 * 1024)), 16 * MiB],
  };
  describe.each(Object.keys(bodies))('and the body is an %s', (kind) => {
    it.each([true, false])('gets its status reported (and closes: %s)', async (closes) => {
      const server = await goodServer();
      const client = clientOf(server.address);
      let refused = 0;
      server.onHeader = ({ command, socket }) => {
        if (command !== 11) return false;
        refused++;
        socket.pause();
        socket.write(replyFrame(28), () => {
          if (closes) socket.destroy();
        });
        return true;
      };
      for (let round = 0; round < 5; round++) {
        const [body, size] = bodies[kind]!();
        const error = await failure(client.upload(body, { size }));
        expect(error).toMatchObject({ code: 'no_space', status: 28 });
        if (body instanceof Chunks) {
          await until(() => body.returned);
          expect(body.pulled).toBeLessThan(size);
        }
      }
      expect(refused).toBe(5);
      server.onHeader = undefined;
      expect(await client.upload(HELLO)).toBe(HELLO_ID);
    });
  });

  it('never gets another request on that connection', async () => {
    const server = await goodServer();
    const client = clientOf(server.address, { busyRetries: 0 });
    server.answers.set(11, ({ socket }) => socket.write(replyFrame(11)));
    expect((await failure(client.upload(HELLO))).code).toBe('busy');
    server.answers.clear();
    await client.upload(HELLO);
    const uploads = server.requests.filter((request) => request.command === 11);
    expect(new Set(uploads.map((request) => request.connection)).size).toBe(2);
  });

  it('may not report success before it has the body', async () => {
    const server = await goodServer();
    const good = Buffer.from(
      frameVector('storage', 'storage.upload.buff.13.txt').response_hex!,
      'hex',
    );
    server.onHeader = ({ command, socket }) => {
      if (command !== 11) return false;
      socket.pause();
      socket.write(good);
      return true;
    };
    const client = clientOf(server.address);
    const body = new Chunks(chunksOf(256, 64 * 1024));
    expect((await failure(client.upload(body, { size: 16 * MiB }))).code).toBe('bad_reply');
    expect(client.stats().leased).toBe(0);
  });
});

describe('a stream that nobody watches', () => {
  it('brings nothing down when its connection is reset', async () => {
    const server = await goodServer();
    server.answers.set(14, ({ socket }) => {
      socket.write(replyFrame(0, Buffer.alloc(MiB)).subarray(0, 500_000), () =>
        socket.resetAndDestroy(),
      );
    });
    const client = clientOf(server.address);
    const { stream } = await client.download(HELLO_ID);
    stream.resume();
    await until(() => stream.destroyed);
    expect(stream.errored).toMatchObject({ code: 'connection_lost' });
  });

  it('gives its connection back at its deadline', async () => {
    const server = await goodServer();
    server.content = Buffer.alloc(32 * MiB);
    const client = clientOf(server.address);
    const { stream } = await client.download(HELLO_ID, { deadlineMs: 2_000 });
    await until(() => stream.destroyed);
    expect(stream.errored).toMatchObject({ code: 'timeout' });
    expect(client.stats()).toMatchObject({ open: 0, leased: 0 });
  });
});

describe('deadlines', () => {
  it('end a call whose server keeps making progress', async () => {
    const server = await goodServer();
    server.answers.set(14, ({ socket }) => {
      socket.write(replyFrame(0, Buffer.alloc(100_000)).subarray(0, 10));
      const timer = setInterval(() => socket.write('x'), 5);
      socket.on('close', () => clearInterval(timer));
    });
    const client = clientOf(server.address, { idleTimeoutMs: 5_000 });
    const error = await failure(client.downloadBytes(HELLO_ID, { deadlineMs: 400 }));
    expect(error).toMatchObject({ code: 'timeout', operation: 'download', fileId: HELLO_ID });
  });

  it('blame the server only for its own silence: a slow source may take its time', async () => {
    const server = await goodServer();
    const limits: unknown[] = [];
    async function* slow(): AsyncGenerator<Uint8Array> {
      for (let index = 0; index < 3; index++) {
        limits.push(...[...server.server.sockets].map((socket) => otherEndOf(socket).timeout));
        yield Buffer.alloc(4);
      }
    }
    expect(await clientOf(server.address).upload(slow(), { size: 12 })).toBe(HELLO_ID);
    expect(limits).toEqual([0, 0, 0]);
  });
});

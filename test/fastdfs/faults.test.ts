import { buffer } from 'node:stream/consumers';
import { MISBEHAVIOURS, replyFrame, reset, stall } from '@stevedore/bench/cluster';
import type { FastdfsClient } from '@stevedore/fastdfs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Chunks, chunksOf, clientOf, failure, goodServer, until } from '../support/fastdfs.js';
import { HELLO, HELLO_ID } from '../support/good-server.js';
import { frameVector } from '../support/vectors.js';

const MiB = 1024 * 1024;

/** Errors that reached nobody: none may, in any test of this file. */
const escaped: unknown[] = [];
const onEscaped = (error: unknown): void => void escaped.push(error);
beforeAll(() => {
  process.on('unhandledRejection', onEscaped);
  process.on('uncaughtException', onEscaped);
});
afterAll(async () => {
  await new Promise((resolve) => setTimeout(resolve, 50));
  process.off('unhandledRejection', onEscaped);
  process.off('uncaughtException', onEscaped);
  expect(escaped).toEqual([]);
});

const CALLS: Readonly<Record<string, (client: FastdfsClient) => Promise<unknown>>> = {
  'upload of an array': (client) => client.upload(HELLO, { extension: 'txt' }),
  'upload of an iterable': (client) => client.upload(new Chunks([HELLO]), { size: HELLO.length }),
  'download in one piece': (client) => client.downloadBytes(HELLO_ID),
  'download as a stream': async (client) => buffer((await client.download(HELLO_ID)).stream),
  info: (client) => client.info(HELLO_ID),
  delete: (client) => client.delete(HELLO_ID),
};

/** Which storage command a call ends with. */
const COMMANDS: Readonly<Record<string, number>> = {
  'upload of an array': 11,
  'upload of an iterable': 11,
  'download in one piece': 14,
  'download as a stream': 14,
  info: 22,
  delete: 12,
};

describe.each(MISBEHAVIOURS)('a storage that $name', ({ answer, codes }) => {
  it.each(Object.keys(CALLS))(
    'fails the %s, and the next call gets its own answer',
    async (what) => {
      const server = await goodServer();
      const client = clientOf(server.address, { idleTimeoutMs: 250 });
      const call = CALLS[what]!;
      const expected = await call(client);
      // On the connection just used, and then on a new one.
      server.answers.set(COMMANDS[what]!, answer);
      for (let round = 0; round < 2; round++) {
        const error = await failure(call(client));
        expect(codes).toContain(error.code);
        expect(error.address).toBe(server.address);
        expect(client.stats()).toMatchObject({ leased: 0, queued: 0 });
      }
      server.answers.delete(COMMANDS[what]!);
      expect(await call(client)).toEqual(expected);
      expect(server.server.pipelined).toBe(0);
    },
  );
});

describe.each(MISBEHAVIOURS)('a tracker that $name', ({ answer }) => {
  it('fails the call with no_tracker and what happened', async () => {
    const server = await goodServer();
    const client = clientOf(server.address, { idleTimeoutMs: 250 });
    for (const command of [101, 102, 103, 111]) server.answers.set(command, answer);
    for (const call of [...Object.values(CALLS), (each: FastdfsClient) => each.ping()]) {
      const error = await failure(call(client));
      expect(error).toMatchObject({ code: 'no_tracker', address: server.address });
      expect(error.cause).toBeInstanceOf(Error);
    }
    expect(client.stats()).toMatchObject({ leased: 0, queued: 0 });
    server.answers.clear();
    expect(await client.upload(HELLO)).toBe(HELLO_ID);
  });
});

describe('a reply that comes too late', () => {
  it('is never taken for the reply to the next call', async () => {
    const server = await goodServer();
    const client = clientOf(server.address, { idleTimeoutMs: 250 });
    const late: (() => void)[] = [];
    server.answers.set(11, ({ socket }, good) => late.push(() => socket.write(good)));
    expect((await failure(client.upload(HELLO))).code).toBe('timeout');
    const other = frameVector('storage', 'storage.upload.buff.300.bin').response_hex!;
    server.answers.set(11, ({ socket }) => {
      for (const send of late) send();
      socket.write(Buffer.from(other, 'hex'));
    });
    const otherId = 'group1/M00/00/00/fwARA2sAsIGAUgByAAABLN4OV84803.bin';
    expect(await client.upload(HELLO)).toBe(otherId);
  });
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
    const error = await failure(client.downloadBytes(HELLO_ID, { deadlineMs: 1_000 }));
    expect(error).toMatchObject({ code: 'timeout', operation: 'download', fileId: HELLO_ID });
  });

  it('end an upload whose source never goes on', async () => {
    const server = await goodServer();
    let returned = false;
    const body: AsyncIterable<Uint8Array> = {
      [Symbol.asyncIterator]: () => ({
        next: () => new Promise(() => {}),
        return: async () => {
          returned = true;
          return { done: true, value: undefined };
        },
      }),
    };
    const client = clientOf(server.address, { idleTimeoutMs: 500 });
    const error = await failure(client.upload(body, { size: 5, deadlineMs: 2_000 }));
    expect(error.code).toBe('timeout');
    expect(returned).toBe(true);
    await until(() => client.stats().leased === 0);
  });

  it('blame the server only for its own silence: a slow source may take its time', async () => {
    const server = await goodServer();
    async function* slow(): AsyncGenerator<Uint8Array> {
      for (let index = 0; index < 3; index++) {
        await new Promise((resolve) => setTimeout(resolve, 700));
        yield Buffer.alloc(4);
      }
    }
    const client = clientOf(server.address, { idleTimeoutMs: 500 });
    expect(await client.upload(slow(), { size: 12 })).toBe(HELLO_ID);
  });
});

describe('pings', () => {
  it.each([stall, reset])('fail when the tracker $name', async ({ answer }) => {
    const server = await goodServer();
    server.answers.set(111, answer);
    const client = clientOf(server.address, { idleTimeoutMs: 250 });
    expect((await failure(client.ping())).code).toBe('no_tracker');
  });
});

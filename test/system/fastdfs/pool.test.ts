import { execFile } from 'node:child_process';
import { buffer } from 'node:stream/consumers';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';
import { reset, silence } from '../../support/cluster/index.js';
import { Chunks, clientOf, failure, goodServer, until } from '../../support/fastdfs.js';
import { HELLO, HELLO_ID } from '../../support/good-server.js';

describe('connections', () => {
  it('are reused: two hundred calls need one', async () => {
    const server = await goodServer();
    const client = clientOf(server.address);
    for (let index = 0; index < 100; index++) {
      await client.upload(HELLO);
      await client.downloadBytes(HELLO_ID);
    }
    expect(server.server.accepted).toBe(1);
    expect(client.stats()).toMatchObject({ open: 1, idle: 1, leased: 0, queued: 0 });
  });

  it('carry one request at a time, each answered to its own caller', async () => {
    const server = await goodServer();
    const busy = new Set<number>();
    let overlaps = 0;
    let most = 0;
    server.answers.set(14, ({ socket, connection, body }, _good) => {
      if (busy.has(connection)) overlaps++;
      busy.add(connection);
      most = Math.max(most, busy.size);
      const reply = Buffer.alloc(18);
      reply.writeBigInt64BE(8n, 0);
      reply[8] = 100;
      body.copy(reply, 10, 0, 8);
      setTimeout(
        () => {
          busy.delete(connection);
          socket.write(reply);
        },
        Number(body.readBigInt64BE(0)) % 5,
      );
    });
    const client = clientOf(server.address, { maxConnectionsPerAddress: 4 });
    // The id of an appender, because that of another file tells where it ends.
    const id = 'group1/M00/00/00/fwARA2sAsIGEAAAFAAAAAAAAAAA645.txt';
    const calls = Array.from({ length: 200 }, async (_, offset) => {
      const got = await client.downloadBytes(id, { offset });
      expect(got.readBigInt64BE(0)).toBe(BigInt(offset));
    });
    await Promise.all(calls);
    expect([overlaps, server.server.pipelined]).toEqual([0, 0]);
    expect(most).toBeLessThanOrEqual(4);
    expect(server.server.accepted).toBe(4);
  });

  it('are taken last used first', async () => {
    const server = await goodServer();
    const client = clientOf(server.address);
    await Promise.all([client.ping(), client.ping(), client.ping()]);
    const last = server.requests.at(-1)!.connection;
    for (let index = 0; index < 5; index++) await client.ping();
    expect(server.requests.slice(-5).every((each) => each.connection === last)).toBe(true);
  });

  it('that were idle for too long are closed', async () => {
    const server = await goodServer();
    const client = clientOf(server.address, { maxIdleMs: 300 });
    await client.ping();
    expect(client.stats().open).toBe(1);
    await until(() => client.stats().open === 0);
    await until(() => server.server.sockets.size === 0);
    await client.ping();
    expect(server.server.accepted).toBe(2);
  });

  it('that the server closes while they are idle are forgotten', async () => {
    const server = await goodServer();
    const client = clientOf(server.address);
    await client.ping();
    for (const socket of server.server.sockets) socket.end();
    await until(() => client.stats().open === 0);
    await client.ping();
  });

  it('on which bytes arrive unasked are dropped', async () => {
    const server = await goodServer();
    const client = clientOf(server.address);
    await client.ping();
    for (const socket of server.server.sockets) socket.write(Buffer.from('surprise'));
    await until(() => client.stats().open === 0);
    expect(await client.downloadBytes(HELLO_ID)).toEqual(HELLO);
  });
});

describe('a connection that died in the pool', () => {
  /** Resets every connection at its second or later request of this command. */
  async function dying(command: number) {
    const server = await goodServer();
    server.answers.set(command, (received, good) => {
      if (received.request > 1) received.socket.resetAndDestroy();
      else received.socket.write(good);
    });
    const storage = await goodServer();
    storage.answers.set(command, (received, good) => {
      if (received.request > 1) received.socket.resetAndDestroy();
      else received.socket.write(good);
    });
    server.storage = { host: '127.0.0.1', port: storage.server.port };
    return { server, storage, client: clientOf(server.address) };
  }

  it.each([
    ['upload', 11],
    ['downloadBytes', 14],
    ['download', 14],
    ['info', 22],
    ['delete', 12],
    ['ping', 111],
  ] as const)('is replaced once, silently: %s', async (what, command) => {
    const { client, server, storage } = await dying(command);
    const call = async (): Promise<void> => {
      if (what === 'upload') await client.upload(HELLO);
      else if (what === 'download') await buffer((await client.download(HELLO_ID)).stream);
      else if (what === 'ping') await client.ping();
      else await client[what](HELLO_ID);
    };
    await call();
    await call();
    const asked = what === 'ping' ? server : storage;
    expect(asked.count(command)).toBe(3);
    expect(asked.server.accepted).toBe(2);
  });

  it('is replaced once only', async () => {
    const { client, storage } = await dying(22);
    await client.info(HELLO_ID);
    storage.answers.set(22, reset.answer);
    const error = await failure(client.info(HELLO_ID));
    expect(error).toMatchObject({ code: 'connection_lost', retryable: true });
    expect(storage.count(22)).toBe(3);
  });

  it('is not replaced when a part of the reply had come', async () => {
    const { client, storage } = await dying(22);
    await client.info(HELLO_ID);
    storage.answers.set(22, ({ socket }, good) => socket.end(good.subarray(0, 1)));
    expect((await failure(client.info(HELLO_ID))).code).toBe('connection_lost');
    expect(storage.count(22)).toBe(2);
  });

  it('is found out before a body that can be read only once is touched', async () => {
    const { client, storage } = await dying(111);
    await client.upload(HELLO);
    const body = new Chunks([HELLO]);
    expect(await client.upload(body, { size: HELLO.length })).toBe(HELLO_ID);
    expect(storage.count(111)).toBe(1);
    expect(storage.uploads).toEqual([HELLO, HELLO]);
  });

  it('is not replaced once such a body was touched', async () => {
    const { client, storage } = await dying(11);
    await client.upload(HELLO);
    const body = new Chunks([HELLO]);
    expect((await failure(client.upload(body, { size: HELLO.length }))).code).toBe(
      'connection_lost',
    );
    await until(() => body.returned);
    expect(body.pulled).toBe(HELLO.length);
    expect(storage.count(11)).toBe(2);
    expect(await client.upload(HELLO)).toBe(HELLO_ID);
  });
});

describe('waiting for a connection', () => {
  it('is refused beyond the limit of the queue', async () => {
    const server = await goodServer();
    server.answers.set(111, silence);
    const client = clientOf(server.address, {
      maxConnectionsPerAddress: 1,
      maxQueuedPerAddress: 2,
      idleTimeoutMs: 60_000,
    });
    const waiting = [client.ping(), client.ping(), client.ping()].map((call) => failure(call));
    expect(client.stats()).toMatchObject({ open: 1, idle: 0, leased: 1, queued: 2 });
    const error = await failure(client.ping());
    expect(error).toMatchObject({ code: 'pool_exhausted', address: server.address });
    await client.close();
    for (const call of waiting) expect((await call).code).toBe('closed');
  });

  it('is served in order', async () => {
    const server = await goodServer();
    const client = clientOf(server.address, { maxConnectionsPerAddress: 1 });
    const order: number[] = [];
    const calls = Array.from({ length: 20 }, (_, index) =>
      client.ping().then(() => order.push(index)),
    );
    await Promise.all(calls);
    expect(order).toEqual([...Array(20).keys()]);
    expect(server.server.accepted).toBe(1);
  });

  it('goes on when the connection waited for is lost', async () => {
    const server = await goodServer();
    let first = true;
    server.answers.set(111, (received, good) => {
      if (first) received.socket.resetAndDestroy();
      else received.socket.write(good);
      first = false;
    });
    const client = clientOf(server.address, { maxConnectionsPerAddress: 1 });
    const [lost, ...others] = await Promise.allSettled([
      client.ping(),
      client.ping(),
      client.ping(),
    ]);
    expect(lost!.status).toBe('rejected');
    expect(others.map((each) => each.status)).toEqual(['fulfilled', 'fulfilled']);
  });
});

describe('closing', () => {
  it('ends calls in flight and refuses new ones', async () => {
    const server = await goodServer();
    server.content = Buffer.alloc(32 * 1024 * 1024);
    server.answers.set(22, silence);
    const client = clientOf(server.address);
    await client.ping();
    const { stream } = await client.download(HELLO_ID);
    const info = failure(client.info(HELLO_ID));
    await until(() => server.count(22) === 1);
    await client.close();
    expect((await info).code).toBe('closed');
    expect((await failure(buffer(stream))).code).toBe('closed');
    expect(client.stats()).toMatchObject({ open: 0, idle: 0, leased: 0, queued: 0 });
    expect((await failure(client.upload(HELLO))).code).toBe('closed');
    expect((await failure(client.download(HELLO_ID))).code).toBe('closed');
    await client.close();
  });

  it('happens at the end of a block that uses the client', async () => {
    const server = await goodServer();
    let kept: ReturnType<typeof clientOf>;
    {
      await using client = clientOf(server.address);
      await client.ping();
      kept = client;
    }
    expect(kept.stats().open).toBe(0);
  });
});

describe('a process', () => {
  const run = promisify(execFile);
  const entry = import.meta.resolve('@stevedore/fastdfs');

  it('ends by itself with idle connections, and not before its calls', async () => {
    const server = await goodServer();
    server.answers.set(22, ({ socket }, good) => void setTimeout(() => socket.write(good), 300));
    const script = `
      import { FastdfsClient } from ${JSON.stringify(entry)};
      const client = new FastdfsClient({ trackers: [${JSON.stringify(server.address)}] });
      await client.ping();
      client.info(${JSON.stringify(HELLO_ID)}).then((info) => console.log(info.size));
    `;
    const { stdout } = await run(process.execPath, ['--input-type=module', '-e', script], {
      timeout: 30_000,
    });
    expect(stdout.trim()).toBe('13');
  });
});

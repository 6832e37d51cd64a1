import { buffer } from 'node:stream/consumers';
import { describe, expect, it } from 'vitest';
import { silence } from '../../support/cluster/index.js';
import { Chunks, chunksOf, clientOf, failure, goodServer, until } from '../../support/fastdfs.js';
import { HELLO, HELLO_ID } from '../../support/good-server.js';

const MiB = 1024 * 1024;

describe('an aborted call', () => {
  const reason = new Error('not wanted any more');

  it('with a signal aborted before does no I/O', async () => {
    const server = await goodServer();
    const client = clientOf(server.address);
    const signal = AbortSignal.abort(reason);
    const body = new Chunks([HELLO]);
    for (const call of [
      client.upload(HELLO, { signal }),
      client.upload(body, { size: HELLO.length, signal }),
      client.download(HELLO_ID, { signal }),
      client.downloadBytes(HELLO_ID, { signal }),
      client.info(HELLO_ID, { signal }),
      client.delete(HELLO_ID, { signal }),
      client.ping({ signal }),
    ]) {
      const error = await failure(call);
      expect(error).toMatchObject({ code: 'aborted', retryable: false });
      expect(error.cause).toBe(reason);
    }
    expect([server.server.accepted, body.pulled]).toEqual([0, 0]);
  });

  it('leaves the queue when it waits for a connection', async () => {
    const server = await goodServer();
    server.answers.set(111, silence);
    const client = clientOf(server.address, { maxConnectionsPerAddress: 1 });
    const first = failure(client.ping());
    const controller = new AbortController();
    const second = failure(client.ping({ signal: controller.signal }));
    expect(client.stats().queued).toBe(1);
    controller.abort(reason);
    expect((await second).code).toBe('aborted');
    expect(client.stats()).toMatchObject({ leased: 1, queued: 0 });
    await client.close();
    expect((await first).code).toBe('closed');
  });

  it('gives up the connection that is being made', async () => {
    const server = await goodServer();
    const client = clientOf(server.address);
    const controller = new AbortController();
    const call = failure(client.ping({ signal: controller.signal }));
    expect(client.stats().open).toBe(1);
    controller.abort(reason);
    expect((await call).code).toBe('aborted');
    expect(client.stats().open).toBe(0);
  });

  it('closes the connection when the reply is awaited', async () => {
    const server = await goodServer();
    server.answers.set(22, silence);
    const client = clientOf(server.address);
    const controller = new AbortController();
    const call = failure(client.info(HELLO_ID, { signal: controller.signal }));
    await until(() => server.count(22) === 1);
    controller.abort(reason);
    expect(await call).toMatchObject({ code: 'aborted', fileId: HELLO_ID });
    await until(() => server.server.sockets.size === 0);
    expect(client.stats()).toMatchObject({ open: 0, idle: 0, leased: 0, queued: 0 });
  });

  it.each(['array', 'iterable'])('closes the connection when it sends an %s', async (kind) => {
    const server = await goodServer();
    let sending = false;
    server.onHeader = ({ command, socket }) => {
      if (command !== 11) return false;
      socket.pause();
      sending = true;
      return true;
    };
    const client = clientOf(server.address);
    const controller = new AbortController();
    const body = kind === 'array' ? Buffer.alloc(64 * MiB) : new Chunks(chunksOf(64, MiB));
    const options = { size: 64 * MiB, signal: controller.signal };
    const call = failure(client.upload(body, options));
    await until(() => sending);
    controller.abort(reason);
    expect((await call).code).toBe('aborted');
    if (body instanceof Chunks) await until(() => body.returned);
    expect(client.stats()).toMatchObject({ open: 0, leased: 0 });
    server.onHeader = undefined;
    expect(await client.upload(HELLO)).toBe(HELLO_ID);
  });

  it('fails the stream that it had opened', async () => {
    const server = await goodServer();
    server.content = Buffer.alloc(32 * MiB);
    const client = clientOf(server.address);
    const controller = new AbortController();
    const { stream } = await client.download(HELLO_ID, { signal: controller.signal });
    const reading = failure(buffer(stream));
    controller.abort(reason);
    const error = await reading;
    expect(error.code).toBe('aborted');
    expect(error.cause).toBe(reason);
    expect(client.stats()).toMatchObject({ open: 0, leased: 0 });
  });

  it('is not disturbed by an abort after its end', async () => {
    const server = await goodServer();
    const client = clientOf(server.address);
    const controller = new AbortController();
    const { signal } = controller;
    await client.upload(HELLO, { signal });
    const { stream } = await client.download(HELLO_ID, { signal });
    await until(() => client.stats().leased === 0);
    controller.abort(reason);
    expect(await buffer(stream)).toEqual(HELLO);
    expect(client.stats()).toMatchObject({ open: 1, idle: 1 });
  });

  it('leaves no listener behind on a signal that lives on', async () => {
    const server = await goodServer();
    const client = clientOf(server.address);
    const { signal } = new AbortController();
    let listeners = 0;
    const add = signal.addEventListener.bind(signal);
    const remove = signal.removeEventListener.bind(signal);
    signal.addEventListener = (...args: Parameters<typeof add>) => {
      listeners++;
      add(...args);
    };
    signal.removeEventListener = (...args: Parameters<typeof remove>) => {
      listeners--;
      remove(...args);
    };
    server.answers.set(12, ({ socket }) => socket.destroy());
    await client.upload(HELLO, { signal });
    await failure(client.delete(HELLO_ID, { signal }));
    await buffer((await client.download(HELLO_ID, { signal })).stream);
    await client.downloadBytes(HELLO_ID, { signal });
    expect(listeners).toBe(0);
  });
});

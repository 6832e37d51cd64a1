import { activeTest, appendFile, beginAuthentication, getMyIp, Status } from '@stevedore/protocol';
import { checkAddress, control, FrameServer, Peer, type PeerOptions } from '@stevedore/wire';
import { describe, expect, it, onTestFinished } from 'vitest';
import { connectionLimits } from '../../../packages/wire/dist/server/limits.js';
import {
  type FrameHandler,
  replyFrame,
  runOut,
  ScriptedServer,
} from '../../support/cluster/index.js';

/** Another daemon as a server of the tests: scripted where it goes wrong, else one of ours. */

const SECRET = 'the secret of the cluster';
const OK: FrameHandler = {
  onRequest: ({ socket }) => void socket.write(replyFrame(Status.ok)),
};

async function scripted(handler: FrameHandler = OK): Promise<ScriptedServer> {
  const server = await ScriptedServer.listen(handler);
  onTestFinished(() => server.close());
  return server;
}

async function peerOf(
  { address }: { readonly address: string },
  options: Partial<PeerOptions> = {},
  signal?: AbortSignal,
): Promise<Peer> {
  const defaults = { address: checkAddress(address, 1), timeoutMs: 20_000 };
  const peer = await Peer.open({ ...defaults, ...options }, signal);
  onTestFinished(() => peer.close());
  return peer;
}

/** One of ours that has a secret. */
async function guarded(secret: string): Promise<{ readonly address: string }> {
  const secrets = [secret];
  const server = new FrameServer<undefined>({
    role: 'storage',
    host: '127.0.0.1',
    port: 0,
    limits: connectionLimits({}),
    access: { secrets, secret, withoutSecret: 'nothing', timeoutMs: 20_000 },
    handlers: new Map([[activeTest.code, control(activeTest, () => undefined)]]),
    closesAfterInvalid: true,
    onError: () => {},
    openSession: () => undefined,
    closeSession: () => {},
  });
  await server.listen();
  onTestFinished(() => server.close());
  return { address: `127.0.0.1:${server.port}` };
}

const pieces = (bytes: Buffer) => async (at: number) => bytes.subarray(at, at + 1000);
const append = (size: number) => ({ name: `M00/00/00/${'a'.repeat(27)}.txt`, size });

describe('a peer', () => {
  it('is asked over one connection, which an answer of an error does not end', async () => {
    const server = await scripted({
      onRequest: ({ socket, request }) =>
        void socket.write(replyFrame(request === 2 ? Status.notFound : Status.ok)),
    });
    const peer = await peerOf(server);
    await peer.ask(activeTest, undefined);
    await expect(peer.ask(activeTest, undefined)).rejects.toMatchObject({
      code: 'server_status',
      status: Status.notFound,
    });
    await peer.ask(activeTest, undefined);
    expect(server.accepted).toBe(1);
    expect(peer.hasEnded).toBe(false);
  });

  it('is asked one request at a time on each connection, and each begins with the hello', async () => {
    const server = await scripted();
    let hellos = 0;
    const hello: PeerOptions['hello'] = async (ask) => {
      await ask(activeTest, undefined);
      hellos += 1;
    };
    const peer = await peerOf(server, { maxConnections: 3, hello });
    await Promise.all(Array.from({ length: 50 }, () => peer.ask(activeTest, undefined)));
    expect(server.accepted).toBe(3);
    expect(hellos).toBe(3);
    expect(server.pipelined).toBe(0);
  });

  it('gets a body whole, and may refuse it without being ended', async () => {
    const body = Buffer.alloc(2500, 'b');
    let got = 0;
    const server = await scripted({
      onRequest({ socket, bodyBytes, request }) {
        got = bodyBytes;
        socket.write(replyFrame(request === 1 ? Status.ok : Status.exists));
      },
    });
    const peer = await peerOf(server);
    await peer.send(appendFile, append(body.length), pieces(body));
    expect(got).toBe(body.length + appendFile.request.encode(append(body.length)).length);
    const again = peer.send(appendFile, append(body.length), pieces(body));
    await expect(again).rejects.toMatchObject({ status: Status.exists });
    await expect(peer.send(appendFile, append(body.length), pieces(body))).rejects.toMatchObject({
      status: Status.exists,
    });
    expect(server.accepted).toBe(1);
  });

  it('that answers before it has the body is believed a refusal, and no success', async () => {
    const server = await scripted({
      ...OK,
      onHeader({ socket, connection }) {
        socket.write(replyFrame(connection === 1 ? Status.noSpace : Status.ok));
        return true;
      },
    });
    const peer = await peerOf(server);
    const endless = async () => {
      await new Promise((resolve) => setImmediate(resolve));
      return Buffer.alloc(1000);
    };
    const size = 2 ** 40;
    const refused = peer.send(appendFile, append(size), endless);
    await expect(refused).rejects.toMatchObject({ status: Status.noSpace });
    const accepted = peer.send(appendFile, append(size), endless);
    await expect(accepted).rejects.toMatchObject({ code: 'connection_lost' });
    expect(peer.hasEnded).toBe(false);
  });

  it('has ended once it closes a connection, be it an idle one', async () => {
    const server = await scripted();
    const peer = await peerOf(server, { maxConnections: 2 });
    await Promise.all([peer.ask(activeTest, undefined), peer.ask(activeTest, undefined)]);
    expect(server.sockets.size).toBe(2);
    const [first] = server.sockets;
    first!.end();
    await peer.ended;
    expect(peer.hasEnded).toBe(true);
    await expect(peer.ask(activeTest, undefined)).rejects.toMatchObject({
      code: 'connection_lost',
    });
    await expect.poll(() => server.sockets.size).toBe(0);
  });

  it('that says nothing is given up in time', async () => {
    const server = await scripted({ onRequest: ({ socket }) => void runOut(socket) });
    const peer = await peerOf(server);
    await expect(peer.ask(activeTest, undefined)).rejects.toMatchObject({
      code: 'timeout',
    });
  });

  it('that is not there is told apart from one that goes away', async () => {
    const server = await scripted();
    const { address } = server;
    await server.close();
    await expect(peerOf({ address })).rejects.toMatchObject({ code: 'connect_failed' });
  });

  it('whose answer makes no sense is an error of the protocol', async () => {
    const server = await scripted({
      onRequest: ({ socket }) => void socket.write(replyFrame(Status.ok, Buffer.from('more'), 99)),
    });
    const peer = await peerOf(server);
    const asked = peer.ask(getMyIp, { group: 'group1', port: 23_000 });
    await expect(asked).rejects.toMatchObject({ name: 'ProtocolError' });
  });

  it('is closed by the signal, at whatever stage', async () => {
    const server = await scripted({ onRequest() {} });
    await expect(peerOf(server, {}, AbortSignal.abort())).rejects.toMatchObject({
      code: 'connection_lost',
    });
    const stop = new AbortController();
    const peer = await peerOf(server, {}, stop.signal);
    const asked = [peer.ask(activeTest, undefined), peer.ask(activeTest, undefined)];
    stop.abort();
    for (const each of await Promise.allSettled(asked)) {
      expect(each).toMatchObject({ reason: { code: 'connection_lost' } });
    }
    await peer.ended;
  });
});

describe('a peer with a secret', () => {
  const access = { secret: SECRET, withoutSecret: 'nothing' } as const;

  it('is asked once both have shown it', async () => {
    const peer = await peerOf(await guarded(SECRET), { access });
    await peer.ask(activeTest, undefined);
  });

  it('that has another one is not asked', async () => {
    const other = await guarded('the secret of another cluster');
    await expect(peerOf(other, { access })).rejects.toMatchObject({
      code: 'access_denied',
      message: expect.stringContaining('another secret'),
    });
  });

  it('that has none is asked only where that is allowed', async () => {
    const stock = await scripted({
      onRequest({ socket, command }) {
        if (command === beginAuthentication.code) socket.end(replyFrame(Status.invalid));
        else socket.write(replyFrame(Status.ok));
      },
    });
    await expect(peerOf(stock, { access })).rejects.toMatchObject({
      message: expect.stringContaining('has no secret'),
    });
    const lenient = { ...access, withoutSecret: 'all' } as const;
    const peer = await peerOf(stock, { access: lenient, maxConnections: 2 });
    await Promise.all([peer.ask(activeTest, undefined), peer.ask(activeTest, undefined)]);
    expect(peer.hasEnded).toBe(false);
  });
});

import { randomBytes } from 'node:crypto';
import { type AddressInfo, connect, createServer, Socket } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { expect, onTestFinished, test } from 'vitest';
import { close, start } from '../../../bench/dist/harness/relay-process.js';
import { useWire } from '../../../bench/dist/harness/wire.js';

test('a wire passes all bytes in order, each way, and ends when its ends do', async () => {
  const echo = createServer({ allowHalfOpen: true }, (socket) => socket.pipe(socket));
  await new Promise<void>((resolve) => echo.listen(0, '127.0.0.1', resolve));
  const wire = { delayMs: 0.2, bytesPerSecond: 20e6 };
  const relay = await start(wire);
  const direct = Socket.prototype.connect;
  onTestFinished(() => {
    Socket.prototype.connect = direct;
    close();
    echo.close();
  });
  const { port } = echo.address() as AddressInfo;
  // The relay itself connects as before.
  const over = (bytes: Buffer) => {
    const socket = connect({ host: '127.0.0.1', port: relay, allowHalfOpen: true });
    socket.end(Buffer.concat([Buffer.from([127, 0, 0, 1, port >> 8, port & 0xff]), bytes]));
    return buffer(socket);
  };
  const sent = [0, 1, 100_000, 300_000].map((length) => randomBytes(length));
  const came = await Promise.all(sent.map(over));
  expect(came.map((bytes, at) => bytes.equals(sent[at]!))).toEqual(sent.map(() => true));
  // What a process does that is told to use it.
  const targets: (readonly [string | undefined, number | undefined])[] = [];
  const written: Buffer[] = [];
  Socket.prototype.connect = function (this: Socket, to: unknown) {
    const { host, port: at } = to as { readonly host: string; readonly port: number };
    targets.push([host, at]);
    return this;
  } as typeof direct;
  useWire(relay);
  const socket = new Socket();
  socket.write = ((bytes: Buffer) => written.push(bytes) > 0) as Socket['write'];
  socket.connect({ host: '192.0.2.7', port: 23_000 });
  expect(targets).toEqual([['127.0.0.1', relay]]);
  expect(written).toEqual([Buffer.from([192, 0, 2, 7, 23_000 >> 8, 23_000 & 0xff])]);
});

import { once } from 'node:events';
import { type AddressInfo, connect, createServer } from 'node:net';
import { VirtualTime } from '@stevedore/bench/virtual-time';

/** A process whose clock jumps to the next timer whenever nothing is left to do. */

/** More than the buffers of two sockets hold. */
const BYTES = 64 * 2 ** 20;
const PAUSE_MS = 1_000;
/** Something else that waits, and would make time pass too early. */
const TICK_MS = 10;

const time = new VirtualTime(0);
time.install(1);
time.installClocks();

/**
 * Sends to a reader that pauses at its first byte. Resolves with the bytes that came, and
 * the milliseconds that passed.
 */
export async function sendToPausedReader(): Promise<readonly [bytes: number, ms: number]> {
  const server = createServer((socket) => {
    socket.once('data', () => {
      socket.pause();
      setTimeout(() => socket.resume(), PAUSE_MS);
    });
    socket.on('end', () => socket.end(String(socket.bytesRead)));
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const ticking = setInterval(() => {}, TICK_MS);
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1');
  socket.end(Buffer.alloc(BYTES));
  const [answer] = await time.passDuring(once(socket, 'data'));
  clearInterval(ticking);
  server.close();
  return [Number(answer), time.now()];
}

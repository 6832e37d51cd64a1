import { createRequire } from 'node:module';
import type { Socket } from 'node:net';

/**
 * Acknowledges at once what has come. The clients in C and Java write a request in two
 * pieces and leave Nagle's algorithm on: their system keeps a body that fills no segment
 * until the head is acknowledged. On a connection that is answered, Linux delays that by
 * 40 ms, in the hope of an answer to send it with. TCP_QUICKACK ends the delay, though only
 * until the next answer, so it is set whenever a body is waited for; the C storage does the
 * same. Node has no call for it, so koffi makes it. It is an optional dependency: without
 * it, and on other systems, such a client is as slow as its system makes it.
 */

/** Of Linux, on every processor. */
const IPPROTO_TCP = 6;
const TCP_QUICKACK = 12;
const PROTOTYPE = 'int setsockopt(int fd, int level, int name, const int *value, uint32_t length)';
const ON = new Int32Array([1]);

let acknowledge: ((fd: number) => void) | undefined;

export function quickAck(socket: Socket): void {
  const fd = descriptorOf(socket);
  if (fd === undefined) return;
  acknowledge ??= load();
  acknowledge(fd);
}

/** Node tells it nobody, but has it in the same place in all its versions. Windows has none. */
function descriptorOf(socket: Socket): number | undefined {
  const { _handle: handle } = socket as { _handle?: { readonly fd?: number } | null };
  return handle?.fd;
}

/** At the first need: most storages have other clients, and do without its memory. */
function load(): (fd: number) => void {
  if (process.platform !== 'linux') return () => {};
  try {
    const koffi = createRequire(import.meta.url)('koffi') as typeof import('koffi');
    const setsockopt = koffi.load(null).func(PROTOTYPE);
    // That it failed says that the connection is gone, which its reader notices.
    return (fd) => void setsockopt(fd, IPPROTO_TCP, TCP_QUICKACK, ON, ON.byteLength);
  } catch {
    return () => {};
  }
}

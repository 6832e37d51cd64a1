import { createRequire } from 'node:module';
import type { Socket } from 'node:net';

/**
 * Acknowledges received bytes at once. The C and Java clients send a request in two writes
 * with Nagle's algorithm on, so their system holds a short body back until the head is
 * acknowledged, and Linux delays that acknowledgement by 40 ms. TCP_QUICKACK stops the delay
 * until the next answer is sent; it is set whenever a body is missing, as the C storage does
 * after every read. Node cannot set it, so koffi does. Koffi is an optional dependency:
 * without it, and on other systems, such uploads wait.
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

/** Not documented by Node, and the same in versions 20 to 26. Windows has none. */
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
    // It fails only where the connection is gone, which the reader notices.
    return (fd) => void setsockopt(fd, IPPROTO_TCP, TCP_QUICKACK, ON, ON.byteLength);
  } catch {
    return () => {};
  }
}

import { Socket } from 'node:net';
import { setImmediate as nextTurn } from 'node:timers/promises';

/**
 * Ends waits at once that would last as long as a client's limit. A test with a short limit fails on
 * a busy machine, where good answers take as long.
 */

const clients = new Map<string, Socket>();

const connect = Socket.prototype.connect;
Socket.prototype.connect = function (this: Socket, ...given: unknown[]): Socket {
  this.once('connect', () => {
    const name = `${this.remoteAddress}:${this.remotePort} ${this.localPort}`;
    clients.set(name, this);
    this.once('close', () => clients.delete(name));
  });
  return Reflect.apply(connect, this, given);
};

/** The other end of a server's socket, which is in this process too. */
export function otherEndOf(socket: Socket): Socket {
  const client = clients.get(`${socket.localAddress}:${socket.localPort} ${socket.remotePort}`);
  if (!client) throw new Error('no client of this process is at the other end');
  return client;
}

/** Once the client has read all that was sent and waits with a limit, its time is up. */
export async function runOut(socket: Socket): Promise<void> {
  const client = otherEndOf(socket);
  while (!client.destroyed && (!client.timeout || client.bytesRead < socket.bytesWritten)) {
    await nextTurn();
  }
  client.emit('timeout');
}

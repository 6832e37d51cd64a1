import { createServer, type Socket, connect as tcpConnect } from 'node:net';
import { onTestFinished } from 'vitest';
import { serving } from './serving.js';

/** A TCP proxy in front of a gateway that cuts connections. */
export interface CuttingProxy {
  readonly url: string;
  /** Bytes of clients that pass before their connection is cut; undefined: none is. */
  cutAfterBytes: (() => number | undefined) | undefined;
  /** Bytes that passed, from clients. */
  readonly passedBytes: number;
}

export async function cuttingProxy(target: number): Promise<CuttingProxy> {
  const sockets = new Set<Socket>();
  let passedBytes = 0;
  const proxy = {
    cutAfterBytes: undefined as CuttingProxy['cutAfterBytes'],
    get passedBytes() {
      return passedBytes;
    },
  };
  const server = createServer((client) => {
    const upstream = tcpConnect(target, '127.0.0.1');
    let left = proxy.cutAfterBytes?.() ?? Number.POSITIVE_INFINITY;
    const end = () => {
      client.destroy();
      upstream.destroy();
    };
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.on('error', end);
      socket.on('close', () => {
        sockets.delete(socket);
        end();
      });
    }
    client.on('data', (chunk: Buffer) => {
      const passes = chunk.subarray(0, left);
      left -= passes.length;
      passedBytes += passes.length;
      if (!upstream.write(passes)) client.pause();
      if (left === 0) end();
    });
    upstream.on('drain', () => client.resume());
    upstream.on('data', (chunk) => client.write(chunk));
  });
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
  });
  return Object.assign(proxy, { url: await serving(server) });
}

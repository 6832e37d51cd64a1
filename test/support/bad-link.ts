import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';

/** A TCP connection's way between two processes, which can be cut, stalled or halved for a while. */

/**
 * open: bytes pass. dropped: connections are reset, new ones too. stalled: they stay open and nothing
 * passes. halved: of what comes next one half passes, then the connection ends.
 */
export type LinkState = 'open' | 'dropped' | 'stalled' | 'halved';

export class BadLink {
  readonly #server: Server;
  readonly #pairs = new Set<readonly [Socket, Socket]>();
  #state: LinkState = 'open';

  private constructor(server: Server, port: number) {
    this.#server = server;
    server.on('connection', (near: Socket) => this.#join(near, port));
  }

  static async to(port: number): Promise<BadLink> {
    const server = createServer();
    const link = new BadLink(server, port);
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return link;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  set(state: LinkState): void {
    this.#state = state;
    for (const pair of this.#pairs) {
      for (const socket of pair) {
        if (state === 'dropped') socket.resetAndDestroy();
        else if (state === 'stalled') socket.pause();
        else socket.resume();
      }
    }
  }

  close(): void {
    this.set('dropped');
    this.#server.close();
  }

  #join(near: Socket, port: number): void {
    if (this.#state === 'dropped') {
      near.on('error', () => undefined).resetAndDestroy();
      return;
    }
    const far = connect(port, '127.0.0.1');
    const pair = [near, far] as const;
    this.#pairs.add(pair);
    for (const [one, other] of [pair, [far, near] as const]) {
      one.on('error', () => undefined);
      one.on('data', (chunk: Buffer) => this.#pass(chunk, one, other));
      one.on('end', () => other.end());
      one.on('close', () => {
        other.destroy();
        this.#pairs.delete(pair);
      });
      one.on('drain', () => this.#state !== 'stalled' && other.resume());
      if (this.#state === 'stalled') one.pause();
    }
  }

  #pass(chunk: Buffer, from: Socket, to: Socket): void {
    if (this.#state === 'halved') {
      to.end(chunk.subarray(0, chunk.length >> 1), () => from.resetAndDestroy());
    } else if (!to.write(chunk)) {
      from.pause();
    }
  }
}

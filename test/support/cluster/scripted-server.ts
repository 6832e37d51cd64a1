import { once } from 'node:events';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { Arrived } from '@stevedore/bench/arrived';

/**
 * A TCP server that cuts what it receives into FastDFS requests, with its own simple framing, and
 * leaves answers to a handler. It holds whole requests in memory, so it is for tests only.
 */

export interface Received {
  readonly command: number;
  /** Status byte of the request. */
  readonly flags: number;
  /** Announced bytes of body. */
  readonly bodyBytes: number;
  readonly body: Buffer;
  /** Header and body. */
  readonly frame: Buffer;
  readonly socket: Socket;
  /** Number of the connection, from 1. */
  readonly connection: number;
  /** Number of the request on its connection, from 1. */
  readonly request: number;
}

export interface FrameHandler {
  /** A whole request has come. */
  onRequest(received: Received): void;
  /** A header has arrived; true takes over the connection, and nothing more is cut from it. */
  onHeader?(received: Omit<Received, 'body' | 'frame'>): boolean;
}

export class ScriptedServer {
  readonly sockets = new Set<Socket>();
  accepted = 0;
  /** Requests that arrived before the one in front of them was answered. */
  pipelined = 0;
  #handler: FrameHandler;
  readonly #server: Server;

  private constructor(handler: FrameHandler) {
    this.#handler = handler;
    this.#server = createServer((socket) => this.#serve(socket));
  }

  static async listen(
    handler: FrameHandler,
    host = '127.0.0.1',
    port = 0,
  ): Promise<ScriptedServer> {
    const server = new ScriptedServer(handler);
    server.#server.listen(port, host);
    await once(server.#server, 'listening');
    return server;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  get address(): string {
    const { address, family, port } = this.#server.address() as AddressInfo;
    return family === 'IPv6' ? `[${address}]:${port}` : `${address}:${port}`;
  }

  set handler(handler: FrameHandler) {
    this.#handler = handler;
  }

  async close(): Promise<void> {
    for (const socket of this.sockets) socket.destroy();
    if (!this.#server.listening) return;
    this.#server.close();
    await once(this.#server, 'close');
  }

  #serve(socket: Socket): void {
    const connection = ++this.accepted;
    const arrived = new Arrived();
    let request = 0;
    let [isHeaded, isTaken] = [false, false];
    this.sockets.add(socket);
    socket.setNoDelay(true);
    socket.on('error', () => {});
    socket.on('close', () => this.sockets.delete(socket));
    socket.on('data', (bytes) => {
      if (isTaken) return;
      arrived.push(bytes);
      for (;;) {
        const header = arrived.peek(HEADER_BYTES);
        if (!header) return;
        const bodyBytes = Number(header.readBigInt64BE(0));
        // As real servers do.
        if (bodyBytes < 0) {
          socket.destroy();
          return;
        }
        const fields = { command: header[8]!, flags: header[9]!, bodyBytes };
        const common = { ...fields, socket, connection, request: request + 1 };
        isTaken = !isHeaded && (this.#handler.onHeader?.(common) ?? false);
        if (isTaken) return;
        const frame = arrived.take(HEADER_BYTES + bodyBytes);
        isHeaded = frame === undefined;
        if (!frame) return;
        request += 1;
        if (arrived.length > 0) this.pipelined += 1;
        this.#handler.onRequest({ ...common, frame, body: frame.subarray(HEADER_BYTES) });
      }
    });
  }
}

const HEADER_BYTES = 10;

/** Builds a reply frame by hand. */
export function replyFrame(status: number, body: Buffer = Buffer.alloc(0), command = 100): Buffer {
  const header = Buffer.alloc(10);
  header.writeBigInt64BE(BigInt(body.length), 0);
  header[8] = command;
  header[9] = status;
  return Buffer.concat([header, body]);
}

import { once } from 'node:events';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';

/**
 * A TCP server that cuts what it receives into FastDFS requests, with its own few
 * lines of framing, and leaves the answers to a handler.
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
  /** A header has come; true takes the connection over, so nothing more is cut from it. */
  onHeader?(received: Omit<Received, 'body' | 'frame'>): boolean;
}

export class FrameServer {
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

  static async listen(handler: FrameHandler, host = '127.0.0.1'): Promise<FrameServer> {
    const server = new FrameServer(handler);
    server.#server.listen(0, host);
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
    let request = 0;
    let waiting = Buffer.alloc(0);
    let taken = false;
    let headed = false;
    this.sockets.add(socket);
    socket.setNoDelay(true);
    socket.on('error', () => {});
    socket.on('close', () => this.sockets.delete(socket));
    socket.on('data', (bytes) => {
      if (taken) return;
      waiting = waiting.length === 0 ? bytes : Buffer.concat([waiting, bytes]);
      while (waiting.length >= 10 && !taken) {
        const bodyBytes = Number(waiting.readBigInt64BE(0));
        const common = {
          command: waiting[8]!,
          flags: waiting[9]!,
          bodyBytes,
          socket,
          connection,
          request: request + 1,
        };
        if (!headed && this.#handler.onHeader?.(common)) {
          taken = true;
          return;
        }
        headed = true;
        if (waiting.length < 10 + bodyBytes) return;
        const frame = Buffer.from(waiting.subarray(0, 10 + bodyBytes));
        waiting = waiting.subarray(10 + bodyBytes);
        headed = false;
        request++;
        if (waiting.length > 0) this.pipelined++;
        this.#handler.onRequest({ ...common, frame, body: frame.subarray(10) });
      }
    });
  }
}

/** A reply frame by hand. */
export function replyFrame(status: number, body: Buffer = Buffer.alloc(0), command = 100): Buffer {
  const header = Buffer.alloc(10);
  header.writeBigInt64BE(BigInt(body.length), 0);
  header[8] = command;
  header[9] = status;
  return Buffer.concat([header, body]);
}

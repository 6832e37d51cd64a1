import { connect, type Socket } from 'node:net';
import type { FastifyInstance } from 'fastify';
import { type AppOptions, buildApp } from '../../../gateway/dist/app.js';
import { ofTest } from '../temporary.js';
import { MemoryStore } from './memory-store.js';

/** A gateway on a free port over a store in memory, and raw sockets to it. */

export interface Running {
  readonly app: FastifyInstance;
  readonly store: MemoryStore;
  readonly url: string;
  readonly port: number;
  /** Bytes the server has taken off its connections, request heads included. */
  bytesRead(): number;
  readonly serverErrors: unknown[];
}

export async function running(options: Partial<AppOptions> = {}): Promise<Running> {
  const store = new MemoryStore();
  const serverErrors: unknown[] = [];
  const app = buildApp({ store, onError: (error) => serverErrors.push(error), ...options });
  const sockets: Socket[] = [];
  app.server.on('connection', (socket: Socket) => sockets.push(socket));
  const url = await app.listen({ host: '127.0.0.1', port: 0 });
  ofTest(async () => {
    app.server.closeAllConnections();
    await app.close();
  });
  return {
    app,
    store,
    url,
    port: Number(new URL(url).port),
    bytesRead: () => sockets.reduce((sum, socket) => sum + socket.bytesRead, 0),
    serverErrors,
  };
}

export interface RawAnswer {
  /** The last answer on the connection. */
  readonly status: number;
  readonly head: string;
  readonly body: string;
  readonly closed: boolean;
}

export class RawConnection {
  readonly socket: Socket;
  #received = '';
  #closed = false;
  #wake: () => void = () => {};

  constructor(port: number) {
    this.socket = connect({ host: '127.0.0.1', port });
    this.socket.setEncoding('latin1');
    this.socket.setMaxListeners(0);
    this.socket.on('error', () => {});
    this.socket.on('data', (text: string) => {
      this.#received += text;
      this.#wake();
    });
    this.socket.on('close', () => {
      this.#closed = true;
      this.#wake();
    });
    ofTest(() => this.socket.destroy());
  }

  get closed(): boolean {
    return this.#closed;
  }

  /** Resolves when the bytes have been handed to the system, or never can be. */
  send(data: string | Uint8Array): Promise<void> {
    return new Promise((resolve) => {
      if (this.socket.destroyed) return resolve();
      const done = (): void => {
        this.socket.off('close', done);
        resolve();
      };
      this.socket.once('close', done);
      this.socket.write(data, done);
    });
  }

  async sees(pattern: RegExp): Promise<string> {
    while (!pattern.test(this.#received)) {
      if (this.#closed) throw new Error(`closed after ${JSON.stringify(this.#received)}`);
      await this.#change();
    }
    return this.#received;
  }

  /** Everything up to the end of the connection. */
  async answer(): Promise<RawAnswer> {
    while (!this.#closed) await this.#change();
    return parse(this.#received, true);
  }

  #change(): Promise<void> {
    return new Promise((resolve) => {
      this.#wake = resolve;
    });
  }
}

/** Sends bytes as they are and waits until the server closes the connection. */
export async function raw(port: number, ...pieces: (string | Uint8Array)[]): Promise<RawAnswer> {
  const connection = new RawConnection(port);
  for (const piece of pieces) void connection.send(piece);
  return connection.answer();
}

function parse(text: string, closed: boolean): RawAnswer {
  const start = [...text.matchAll(/HTTP\/1\.1 \d{3} /g)].at(-1)?.index ?? 0;
  const end = text.indexOf('\r\n\r\n', start);
  return {
    status: Number(text.slice(start + 9, start + 12)),
    head: text.slice(start, end),
    body: end < 0 ? '' : text.slice(end + 4),
    closed,
  };
}

/** Resolves when the condition holds; looks after every turn of the event loop. */
export async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise((resolve) => setImmediate(resolve));
}

export const BOUNDARY = 'xxBOUNDARYxx';

/** One part of a form, up to its content's end. */
export function part(disposition: string, content: string, headers = ''): string {
  return `--${BOUNDARY}\r\nContent-Disposition: form-data; ${disposition}\r\n${headers}\r\n${content}\r\n`;
}

export function formHead(length: number | 'chunked', boundary = BOUNDARY): string {
  const framing = length === 'chunked' ? 'Transfer-Encoding: chunked' : `Content-Length: ${length}`;
  return `POST /files HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: multipart/form-data; boundary=${boundary}\r\n${framing}\r\n\r\n`;
}

export const FORM_END = `--${BOUNDARY}--\r\n`;

export function postForm(port: number, body: string): Promise<RawAnswer> {
  return raw(port, formHead(Buffer.byteLength(body)), body);
}

/** Uploads by fetch, with the whole answer. */
export interface Posted {
  readonly status: number;
  readonly body: Record<string, unknown>;
  readonly headers: Headers;
}

export async function post(
  { url }: Running,
  body: string | Buffer | FormData | ReadableStream,
  headers: Record<string, string> = {},
  path = '/files',
): Promise<Posted> {
  const init = { method: 'POST', body, headers, duplex: 'half' } as RequestInit;
  // Of a text, fetch would say that it is one.
  if (typeof body === 'string') init.body = new Uint8Array(Buffer.from(body));
  const response = await fetch(url + path, init);
  const json = (await response.json()) as Record<string, unknown>;
  return { status: response.status, body: json, headers: response.headers };
}

export function postParts(gateway: Running, parts: string, path = '/files'): Promise<Posted> {
  const type = `multipart/form-data; boundary=${BOUNDARY}`;
  return post(gateway, parts + FORM_END, { 'content-type': type }, path);
}

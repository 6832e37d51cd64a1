import { unlink } from 'node:fs/promises';
import { request as ask, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { connect, createServer, type Socket } from 'node:net';
import { relative } from 'node:path';
import { type Duplex, pipeline } from 'node:stream';
import { invalidOption } from '@stevedore/client/internal';
import {
  closeAfterReply,
  defaultTransferLimits,
  hasUnreadBody,
  PROBLEM_TYPE,
  problemBody,
} from '@stevedore/middleware/core';
import { COPIES_PATH } from '../routes/peers.js';

/**
 * Resumable uploads, copies of other gateways and what comes back of adopted ones belong to the first
 * worker: it keeps the received bytes, and may join uploads. Another worker passes a request for them
 * on unchanged, over a socket in the data directory that only this user may open, preceded by the
 * client's address.
 */

const MAX_SOCKET_PATH_BYTES = 107;
const MAX_ADDRESS_BYTES = 64;
const MARK = 'tus-resumable';
const OWN_HEADERS: ReadonlySet<string> = new Set(['connection', 'keep-alive', 'transfer-encoding']);

/** Lets other workers pass requests on to this server. */
export async function takeForwarded(server: Server, path: string): Promise<void> {
  // Removes the socket of a process that was killed.
  await unlink(path).catch(() => undefined);
  const side = createServer((socket) => {
    socket.on('error', () => undefined);
    void readAddress(socket).then((address) => {
      if (address === undefined) return void socket.destroy();
      Object.defineProperty(socket, 'remoteAddress', { value: address });
      server.emit('connection', socket);
    });
  });
  side.on('error', () => undefined);
  server.once('close', () => side.close());
  const short = socketPath(path);
  await new Promise<void>((resolve, reject) => {
    side.once('error', reject);
    side.listen({ path: short, exclusive: true }, resolve);
  });
}

/** Passes requests for resumable uploads and copies on. */
export class ToFirst {
  readonly #path: string;
  /** Connections that copies come over. */
  readonly #tunnels = new Set<Duplex>();

  constructor(path: string) {
    this.#path = socketPath(path);
  }

  /** Takes a request that belongs to the first worker; false for any other. */
  readonly take = (request: IncomingMessage, response: ServerResponse): boolean => {
    const { method, headers, url = '' } = request;
    const isReturned = method === 'PUT' && url.startsWith('/peer/files/');
    if (!isReturned && headers[MARK] === undefined && !url.startsWith(COPIES_PATH)) return false;
    forward(request, response, this.#path);
    return true;
  };

  attach(server: Server): void {
    server.on('connect', (request: IncomingMessage, socket: Duplex, head: Buffer) => {
      this.#tunnels.add(socket);
      socket.once('close', () => this.#tunnels.delete(socket));
      const { method, url, rawHeaders } = request;
      const first = connect(this.#path);
      const lines = rawHeaders.map((text, at) => (at % 2 === 0 ? `${text}: ` : `${text}\r\n`));
      first.write(`${request.socket.remoteAddress ?? ''}\n${method} ${url} HTTP/1.1\r\n`);
      first.write(`${lines.join('')}\r\n`);
      first.write(head);
      // Whatever ends one side ends the other one.
      pipeline(socket, first, socket, () => undefined);
    });
  }

  close(): void {
    for (const socket of this.#tunnels) socket.destroy();
  }
}

function forward(request: IncomingMessage, response: ServerResponse, path: string): void {
  const { method, url, headers, socket } = request;
  const asking = ask({
    method,
    path: url,
    headers,
    createConnection: () => {
      const connection = connect(path);
      connection.write(`${socket.remoteAddress ?? ''}\n`);
      return connection;
    },
  });
  asking.on('continue', () => response.writeContinue());
  asking.on('response', (answer) => {
    answer.on('error', () => response.destroy());
    // The rest of a refused body is not wanted.
    request.unpipe(asking);
    if (hasUnreadBody(request)) {
      response.setHeader('connection', 'close');
      closeAfterReply(request.socket, defaultTransferLimits);
    }
    const others = Object.entries(answer.headers).filter(([name]) => !OWN_HEADERS.has(name));
    response.writeHead(answer.statusCode ?? 502, Object.fromEntries(others));
    answer.pipe(response);
  });
  asking.on('error', () => {
    // After that, the answer itself ends with an error unless it is complete.
    if (!response.headersSent) refuse(response);
  });
  response.on('close', () => asking.destroy());
  request.on('error', () => asking.destroy());
  request.pipe(asking);
}

function refuse(response: ServerResponse): void {
  const message = 'The worker that keeps unfinished uploads and copies is starting again.';
  const body = JSON.stringify(problemBody('storage_unavailable', message));
  response.writeHead(503, {
    'content-type': PROBLEM_TYPE,
    'retry-after': '1',
    connection: 'close',
  });
  response.end(body);
}

/** The first line; undefined if the connection ends without one. */
function readAddress(socket: Socket): Promise<string | undefined> {
  return new Promise((resolve) => {
    socket.once('close', () => resolve(undefined));
    socket.once('readable', () => {
      const bytes = (socket.read() as Buffer | null) ?? Buffer.alloc(0);
      const end = bytes.indexOf('\n');
      if (end < 0 || end > MAX_ADDRESS_BYTES) return resolve(undefined);
      socket.unshift(bytes.subarray(end + 1));
      resolve(bytes.toString('latin1', 0, end));
    });
  });
}

/** The system limits the length to this many bytes; a relative path may be shorter. */
function socketPath(path: string): string {
  const short = [path, relative(process.cwd(), path)].find(
    (each) => Buffer.byteLength(each) <= MAX_SOCKET_PATH_BYTES,
  );
  if (short !== undefined) return short;
  throw invalidOption(
    `${path} is longer than ${MAX_SOCKET_PATH_BYTES} bytes; with several workers the directory has to have a shorter path`,
  );
}

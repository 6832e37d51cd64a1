import { connect, type Socket } from 'node:net';
import { cpuUsed, serve } from '../harness/serve.js';
import { percentile } from '../harness/statistics.js';
import { FILE_BYTES } from './plan.js';
import { fileBytes, type Started } from './server.js';

/**
 * The load: connections that are kept, each sending the next request when the last
 * one is answered. Requests are bytes made beforehand and answers are taken apart by
 * hand, so that the load costs little beside the server.
 */

export interface LoadOptions {
  readonly server: Started;
  readonly kind: 'upload' | 'download';
  readonly connections: number;
  readonly seconds: number;
}

export interface LoadResult {
  readonly requests: number;
  readonly seconds: number;
  readonly cpuSeconds: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
}

export type LoadHandlers = { readonly run: (options: LoadOptions) => Promise<LoadResult> };

const CONTENT = fileBytes(FILE_BYTES);
const HEAD_END = Buffer.from('\r\n\r\n');

const handlers: LoadHandlers = { run };

async function run(options: LoadOptions): Promise<LoadResult> {
  const requests = requestsOf(options);
  const sockets = await Promise.all(
    Array.from({ length: options.connections }, () => opened(options.server.port)),
  );
  const times: number[] = [];
  const cpuBefore = cpuUsed().cpuSeconds;
  const start = performance.now();
  const end = start + options.seconds * 1000;
  let next = 0;
  const status = options.kind === 'upload' ? '201' : '200';
  await Promise.all(
    sockets.map((socket) =>
      loop(
        socket,
        status,
        options.kind === 'download',
        () => {
          if (performance.now() >= end) return undefined;
          next += 1;
          return requests[next % requests.length];
        },
        times,
      ),
    ),
  );
  const seconds = (performance.now() - start) / 1000;
  for (const socket of sockets) socket.destroy();
  times.sort((a, b) => a - b);
  return {
    requests: times.length,
    seconds,
    cpuSeconds: cpuUsed().cpuSeconds - cpuBefore,
    p50Ms: percentile(times, 0.5),
    p99Ms: percentile(times, 0.99),
  };
}

function requestsOf({ server, kind }: LoadOptions): Buffer[] {
  if (kind === 'download') {
    return server.paths.map((path) => Buffer.from(`GET ${path} HTTP/1.1\r\nHost: bench\r\n\r\n`));
  }
  const head =
    `POST ${server.uploadPath} HTTP/1.1\r\nHost: bench\r\nContent-Type: image/png\r\n` +
    `X-Filename: photo.png\r\n${server.uploadHeaders}Content-Length: ${CONTENT.length}\r\n\r\n`;
  return [Buffer.concat([Buffer.from(head), CONTENT])];
}

function opened(port: number): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host: '127.0.0.1', port, noDelay: true });
    socket.once('error', reject);
    socket.once('connect', () => resolve(socket));
  });
}

/** Rejects when an answer is not the one that was expected, to the byte. */
function loop(
  socket: Socket,
  status: string,
  comparesBody: boolean,
  nextRequest: () => Buffer | undefined,
  times: number[],
): Promise<void> {
  return new Promise((resolve, reject) => {
    let received: Buffer[] = [];
    let receivedBytes = 0;
    let expectedBytes = 0;
    let bodyAt = 0;
    let began = 0;
    const send = (): void => {
      const request = nextRequest();
      if (!request) {
        resolve();
        return;
      }
      received = [];
      receivedBytes = 0;
      expectedBytes = 0;
      began = performance.now();
      socket.write(request);
    };
    socket.on('error', reject);
    socket.on('close', () => reject(new Error('the server closed the connection')));
    socket.on('data', (chunk: Buffer) => {
      received.push(chunk);
      receivedBytes += chunk.length;
      if (expectedBytes === 0) {
        const so = received.length === 1 ? chunk : Buffer.concat(received);
        const headEnd = so.indexOf(HEAD_END);
        if (headEnd < 0) return;
        const head = so.toString('latin1', 0, headEnd);
        const length = /\r\ncontent-length: *(\d+)/i.exec(head)?.[1];
        if (head.slice(9, 12) !== status || length === undefined) {
          reject(new Error(`unexpected answer: ${so.toString('latin1', 0, 600)}`));
          return;
        }
        bodyAt = headEnd + HEAD_END.length;
        expectedBytes = bodyAt + Number(length);
      }
      if (receivedBytes < expectedBytes) return;
      times.push(performance.now() - began);
      if (comparesBody) {
        const whole = received.length === 1 ? received[0]! : Buffer.concat(received);
        if (whole.compare(CONTENT, 0, CONTENT.length, bodyAt) !== 0) {
          reject(new Error('wrong bytes came back'));
          return;
        }
      }
      send();
    });
    send();
  });
}

serve(handlers, async () => {});

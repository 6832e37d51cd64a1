import { randomBytes } from 'node:crypto';
import { mkdir } from 'node:fs/promises';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { serve } from '../harness/serve.js';
import { Appender } from './appender.js';
import {
  FILE_TYPE,
  fileText,
  readBytes,
  type ServerHandlers,
  type Started,
  type StartOptions,
} from './server.js';

/** The least that Node itself can do: node:http, an append and a sync for batches, files in a Map. */

const files = new Map<string, Buffer>();
let appender: Appender | undefined;
const server = createServer((request, response) => {
  if (request.method === 'POST') takeBody(request, response);
  else sendFile(request, response);
});

function takeBody(request: IncomingMessage, response: ServerResponse): void {
  const chunks: Buffer[] = [];
  request.on('data', (chunk: Buffer) => chunks.push(chunk));
  request.on('end', async () => {
    const body = chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks);
    const key = await appender!.add(body, String(request.headers['x-filename']));
    const text = JSON.stringify({ key });
    response.writeHead(201, {
      'content-type': 'application/json',
      'content-length': text.length,
      location: `/files/${key}`,
    });
    response.end(text);
  });
}

function sendFile({ url = '' }: IncomingMessage, response: ServerResponse): void {
  const bytes = files.get(url.slice('/files/'.length));
  if (!bytes) {
    response.writeHead(404).end();
    return;
  }
  response.writeHead(200, {
    'content-type': FILE_TYPE,
    'content-length': bytes.length,
    etag: '"x"',
  });
  response.end(bytes);
}

const handlers: ServerHandlers = {
  async start({ directory }: StartOptions): Promise<Started> {
    await mkdir(directory, { recursive: true });
    appender = await Appender.open(join(directory, 'bodies'), (batch) => {
      for (const { key, body } of batch) files.set(key, body);
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    return { port: (server.address() as AddressInfo).port, headers: {} };
  },
  store: async (count) =>
    Array.from({ length: count }, () => {
      const key = randomBytes(16).toString('base64url');
      const number = files.size;
      files.set(key, Buffer.from(fileText(number)));
      return { path: `/files/${key}`, number };
    }),
  readBytes,
};

serve(handlers, async () => {
  server.closeAllConnections();
  server.close();
});

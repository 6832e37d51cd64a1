import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdir, open } from 'node:fs/promises';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { serve } from '../harness/serve.js';
import { FILE_TYPE } from './content.js';

/**
 * The least that Node itself can do: node:http, and a file that bodies are appended to, all that
 * arrived together with one sync. It checks nothing. Files are kept in a Map where they are to be
 * downloaded, and nowhere where uploads alone are measured.
 */

interface Waiting {
  readonly body: Buffer;
  readonly resolve: (key: string) => void;
  readonly reject: (error: unknown) => void;
}

const MAX_BATCH = 500;
const files = new Map<string, Buffer>();
let append: (body: Buffer) => Promise<string>;

async function openFile(directory: string, keeps: boolean): Promise<typeof append> {
  await mkdir(directory, { recursive: true });
  const file = await open(join(directory, 'bodies'), 'a');
  let waiting: Waiting[] = [];
  let writing = false;
  const write = async () => {
    writing = true;
    while (waiting.length > 0) {
      const batch = waiting.slice(0, MAX_BATCH);
      waiting = waiting.slice(MAX_BATCH);
      try {
        await file.writev(batch.map(({ body }) => body));
        await file.datasync();
        for (const { body, resolve } of batch) {
          const key = randomBytes(16).toString('base64url');
          if (keeps) files.set(key, body);
          resolve(key);
        }
      } catch (error) {
        for (const { reject } of batch) reject(error);
      }
    }
    writing = false;
  };
  return (body) =>
    new Promise((resolve, reject) => {
      waiting.push({ body, resolve, reject });
      if (!writing) void write();
    });
}

const server = createServer((request, response) => {
  if (request.method === 'POST') takeBody(request, response);
  else sendFile(request, response);
});

function takeBody(request: IncomingMessage, response: ServerResponse): void {
  const chunks: Buffer[] = [];
  request.on('data', (chunk: Buffer) => chunks.push(chunk));
  request.on('error', () => response.destroy());
  request.on('end', async () => {
    const [first] = chunks;
    const body = first && chunks.length === 1 ? first : Buffer.concat(chunks);
    const key = await append(body);
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

const handlers = {
  /** Answers with its port. */
  async start({ directory, keeps }: { readonly directory: string; readonly keeps: boolean }) {
    append = await openFile(directory, keeps);
    await once(server.listen(0, '127.0.0.1'), 'listening');
    return (server.address() as AddressInfo).port;
  },
};

export type PlainHandlers = typeof handlers;

serve(handlers, () => {
  server.closeAllConnections();
  server.close();
});

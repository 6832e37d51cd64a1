import { randomBytes } from 'node:crypto';
import { mkdir, open } from 'node:fs/promises';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { portOf } from '../harness/http.js';
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
  const { method, url = '' } = request;
  if (method !== 'POST') {
    const bytes = files.get(url.slice('/files/'.length));
    const length = bytes?.length ?? 0;
    const headers = { 'content-type': FILE_TYPE, 'content-length': length, etag: '"x"' };
    response.writeHead(bytes ? 200 : 404, headers).end(bytes);
    return;
  }
  const chunks: Buffer[] = [];
  request.on('data', (chunk: Buffer) => chunks.push(chunk));
  request.on('error', () => response.destroy());
  request.on('end', async () => {
    const [first] = chunks;
    const key = await append(first && chunks.length === 1 ? first : Buffer.concat(chunks));
    const text = JSON.stringify({ key });
    const headers = { 'content-type': 'application/json', 'content-length': text.length };
    response.writeHead(201, { ...headers, location: `/files/${key}` }).end(text);
  });
});

/** Answers with its port. */
export async function start(directory: string, keeps: boolean): Promise<number> {
  append = await openFile(directory, keeps);
  return portOf(server);
}

export function close(): void {
  server.closeAllConnections();
  server.close();
}

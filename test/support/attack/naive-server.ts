import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';

/**
 * An upload server as it is quickly written: it believes what clients say. Every
 * attack of this folder is run against it too and has to succeed there; otherwise
 * the attack would prove nothing about the gateway.
 */
export interface NaiveServer {
  readonly url: string;
  readonly port: number;
  readonly folder: string;
  /** What was stored, whole or not. */
  readonly files: Map<string, { name: string; bytes: Buffer }>;
  close(): Promise<void>;
}

export async function startNaiveServer(folder: string): Promise<NaiveServer> {
  mkdirSync(folder, { recursive: true });
  const files: NaiveServer['files'] = new Map();

  const store = (name: string, bytes: Buffer): string => {
    const id = String(files.size + 1);
    files.set(id, { name, bytes });
    try {
      writeFileSync(join(folder, name || id), bytes);
    } catch {
      // A folder that is not there.
    }
    return id;
  };

  const upload = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const type = request.headers['content-type'] ?? '';
    const { searchParams } = new URL(request.url ?? '', 'http://x');
    const from = searchParams.get('url');
    const chunks: Buffer[] = [];
    try {
      for await (const chunk of request) chunks.push(chunk as Buffer);
    } catch {
      // What has come is better than nothing.
    }
    const body = from
      ? Buffer.from(await (await fetch(from)).arrayBuffer())
      : Buffer.concat(chunks);
    if (request.url?.startsWith('/uploads/images') && !type.includes('image/')) {
      response.writeHead(415).end();
      return;
    }
    let id = '';
    if (type.includes('multipart/form-data')) {
      const boundary = /boundary=([^;]+)/.exec(type)?.[1] ?? '';
      for (const part of body.toString('latin1').split(`--${boundary}`).slice(1)) {
        const [head = '', content = ''] = part.split('\r\n\r\n');
        const name = /filename="([^"]*)"/.exec(head)?.[1];
        if (name !== undefined) id = store(name, Buffer.from(content, 'latin1'));
      }
    } else {
      const name = decodeURIComponent(String(request.headers['x-filename'] ?? ''));
      id = store(name, body);
    }
    const host = request.headers['x-forwarded-host'] ?? request.headers.host;
    response.writeHead(201, { location: `http://${host}/files/${id}` });
    response.end(JSON.stringify({ key: id }));
  };

  const download = (request: IncomingMessage, response: ServerResponse): void => {
    const rest = decodeURIComponent(
      (request.url ?? '').replace(/\?.*/, '').slice('/files/'.length),
    );
    let bytes = files.get(rest)?.bytes;
    try {
      bytes ??= readFileSync(join(folder, rest));
    } catch {
      response.writeHead(404).end();
      return;
    }
    response.end(bytes);
  };

  const server: Server = createServer(
    { insecureHTTPParser: true, requireHostHeader: false },
    (request, response) => {
      if (request.method === 'POST') void upload(request, response).catch(() => request.destroy());
      else download(request, response);
    },
  );
  server.headersTimeout = 0;
  server.requestTimeout = 0;
  server.timeout = 0;
  server.on('clientError', (_, socket) => socket.end('HTTP/1.1 400 Bad Request\r\n\r\n'));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    port,
    folder,
    files,
    close: () =>
      new Promise((resolve) => {
        server.closeAllConnections();
        server.close(() => resolve());
      }),
  };
}

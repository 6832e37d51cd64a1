import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { buffer } from 'node:stream/consumers';
import { portOf } from '../harness/http.js';
import { loadSharp } from './sharp.js';

/**
 * The least that shows pictures in other sizes: node:http, originals in memory, and sharp as it is
 * when it is loaded, in the same process. It keeps nothing that it made, and bounds nothing.
 */

/** The gateway's own settings of a JPEG. */
const JPEG = { quality: 80, progressive: true } as const;

const sharp = loadSharp();
const originals: Buffer[] = [];

async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
  if (request.method === 'POST') {
    const key = String(originals.push(await buffer(request)) - 1);
    response.writeHead(201, { 'content-type': 'application/json' }).end(JSON.stringify({ key }));
    return;
  }
  const { pathname, searchParams } = new URL(request.url ?? '', 'http://bare');
  const original = originals[Number(pathname.slice('/files/'.length))];
  if (!original) throw new Error(`there is no ${pathname}`);
  const box = { width: Number(searchParams.get('w')), height: Number(searchParams.get('h')) };
  const resized = sharp(original)
    .autoOrient()
    .resize({ ...box, fit: 'inside', withoutEnlargement: true });
  const picture = await resized.jpeg(JPEG).toBuffer();
  const headers = { 'content-type': 'image/jpeg', 'content-length': picture.length };
  response.writeHead(200, headers).end(picture);
}

const server = createServer((request, response) => {
  answer(request, response).catch((error) => response.writeHead(500).end(String(error)));
});

export const start = () => portOf(server);

export const close = () => server.closeAllConnections();

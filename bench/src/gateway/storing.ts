import { Agent, request } from 'node:http';
import { text } from 'node:stream/consumers';
import { drive } from '../harness/load.js';
import { FILE_TYPE, fileText, type Started, type Stored } from './server.js';

/** Files to be downloaded, uploaded over HTTP: the same ones to every server. */

const CONCURRENCY = 32;

export interface StoreOptions {
  readonly server: Started;
  /** Where each is to go; without a path, the server's answer says where it is. */
  readonly files: readonly (Omit<Stored, 'path'> & { readonly path?: string })[];
}

export async function store({ server, files }: StoreOptions): Promise<Stored[]> {
  const agent = new Agent({ keepAlive: true, maxSockets: CONCURRENCY });
  const stored: Stored[] = [];
  try {
    await drive({ operations: files.length, concurrency: CONCURRENCY }, async (index) => {
      const file = files[index]!;
      const answer = await send(agent, server, file);
      stored[index] = { ...file, path: file.path ?? `/files/${JSON.parse(answer).key}` };
    });
  } finally {
    agent.destroy();
  }
  return stored;
}

function send(
  agent: Agent,
  { host = '127.0.0.1', port, headers, upload }: Started,
  { path = '/files', number, bytes }: StoreOptions['files'][number],
): Promise<string> {
  const body = fileText(number, bytes);
  const about = { 'content-type': FILE_TYPE, 'content-length': body.length, ...headers };
  const method = upload?.method ?? 'POST';
  return new Promise((resolve, reject) => {
    const asked = request({ agent, host, port, method, path, headers: about }, (response) => {
      text(response).then((answer) => {
        const { statusCode = 0 } = response;
        if (statusCode < 300) resolve(answer);
        else reject(new Error(`${method} ${path} was answered ${statusCode}: ${answer}`));
      }, reject);
    });
    asked.on('error', reject).end(body);
  });
}
